#include "gpu/cpu/memory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

using namespace paceline::gpu;

TEST_CASE("large buffers that lie side by side are zeroed and their own, whichever goes first") {
  constexpr std::size_t bytes = (std::size_t(5) << 20) + 123;
  constexpr int count = 80; // More than the addresses that are reserved at a time.
  std::vector<std::shared_ptr<Buffer>> buffers;
  for (int i = 0; i < count; ++i) {
    auto& buffer = *buffers.emplace_back(cpu::allocate_host(bytes).value());
    CHECK(buffer.size() == bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64 == 0);
    const auto zero = [](std::byte b) { return b == std::byte(0); };
    CHECK(std::all_of(buffer.data(), buffer.data() + bytes, zero));
    std::memset(buffer.data(), i + 1, bytes);
  }
  for (int i = 0; i < count; i += 2)
    buffers[std::size_t(i)].reset();
  for (int i = 1; i < count; i += 2) {
    const std::byte* const data = buffers[std::size_t(i)]->data();
    CHECK(std::all_of(data, data + bytes, [&](std::byte b) { return b == std::byte(i + 1); }));
  }
}
