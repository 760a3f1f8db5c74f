#include "apps/server/request_memory.hpp"

#include "apps/console/limits.hpp"

#include <algorithm>
#include <new>

namespace paceline::apps::serve {

bool RequestMemory::take(std::size_t bytes) {
  std::size_t used = used_;
  do {
    if (bytes > most_ - std::min(used, most_))
      return false;
  } while (!used_.compare_exchange_weak(used, used + bytes));
  return true;
}

void RequestMemory::give(std::size_t bytes) {
  used_ -= bytes;
  if ((given_ += bytes) < limits::trim_bytes)
    return;
  given_ = 0;
  idle_();
}

bool MemoryShare::hold(std::size_t bytes) {
  if (bytes > held_ && !memory_.take(bytes - held_))
    return false;
  if (bytes < held_)
    memory_.give(held_ - bytes);
  held_ = bytes;
  return true;
}

void* MemoryShare::do_allocate(std::size_t bytes, std::size_t alignment) {
  if (!memory_.take(counted(allocated_ + bytes) - counted(allocated_)))
    throw std::bad_alloc();
  allocated_ += bytes;
  return ::operator new(bytes, std::align_val_t(alignment));
}

void MemoryShare::do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) {
  ::operator delete(pointer, std::align_val_t(alignment));
  const std::size_t had = counted(allocated_);
  allocated_ -= bytes;
  memory_.give(had - counted(allocated_));
}

std::size_t bytes_of(const std::optional<Constraint>& form) {
  std::size_t sum = form ? form->text.size() : 0;
  if (form)
    for (const std::string& choice : form->choices)
      sum += sizeof(choice) + choice.size();
  return sum;
}

std::size_t score_bytes(const Request& request, std::size_t prompt_tokens) {
  const auto each = std::size_t(1) + std::size_t(std::max(request.top_logprobs, 0));
  return request.prompt_logprobs ? prompt_tokens * each * limits::score_bytes : 0;
}

} // namespace paceline::apps::serve
