#include "gpu/device.hpp"

#include <fmt/format.h>
#include <stdexcept>

namespace paceline::gpu {

const char* to_string(Work::Kind kind) noexcept {
  switch (kind) {
  case Work::Kind::prefill: return "prefill";
  case Work::Kind::decode: return "decode";
  case Work::Kind::draft: return "draft";
  case Work::Kind::verify: return "verify";
  }
  return "decode";
}

Result<void> Device::prepare_fast_products(std::span<const std::shared_ptr<const Weight>>, int) {
  return fail(ErrorCode::unsupported, name() + " has no fast path for prompts",
              "leave EngineOptions::prefill out, or use a cuda device");
}

// This default suits devices on which `places` are host memory.
void Operations::embed_drawn(Tensor out, const Weight& table,
                             std::span<const TokenId* const> places, float scale) {
  std::vector<TokenId> tokens;
  tokens.reserve(places.size());
  for (const TokenId* place : places)
    tokens.push_back(*place);
  embed(out, table, tokens, scale);
}

void Operations::linear_gate(Tensor out, Tensor made, Tensor in, const Weight& w,
                             const Gating& gating) {
  linear(made, in, w);
  gate(out, made, gating);
}

void Operations::linear_fast(Tensor, Tensor, const Weight&, bool) {
  throw std::logic_error("products that were not prepared");
}

void Operations::meet() {
  barrier();
}

void Operations::sum(Tensor, std::span<const Tensor>, bool) {
  throw std::logic_error("shards on a lane of one device");
}

Result<std::shared_ptr<Device>> Device::make_group(std::span<const std::shared_ptr<Device>> shards,
                                                   GroupWork work) const {
  std::string names;
  for (const auto& shard : shards)
    names += (names.empty() ? "" : ", ") + shard->name();
  if (work == GroupWork::in_turn)
    return fail(ErrorCode::unsupported, names + " cannot have stages of one draft",
                "give devices of one kind");
  return fail(ErrorCode::unsupported,
              fmt::format("{} cannot have shards of one model (EngineOptions::"
                          "tensor_parallel_size is {})",
                          names, shards.size()),
              "give devices of one kind, or leave EngineOptions::tensor_parallel_size out, so that "
              "each device is a stage");
}

bool share_memory(const Device& one, const Device& other) {
  if (one.name() == other.name() || (one.on_host() && other.on_host()))
    return true;
  const auto a = parse_device(one.name());
  const auto b = parse_device(other.name());
  return a && b && a->kind == DeviceKind::cuda && b->kind == a->kind && a->index == b->index;
}

Result<std::shared_ptr<Buffer>> allocate_between(Device& writer, Device& reader,
                                                 std::size_t bytes) {
  if (share_memory(writer, reader))
    return writer.allocate(bytes);
  const Device* const one[] = {&writer};
  if (auto near = reader.allocate_reached_by(one, bytes); !near || *near)
    return near;
  return (writer.on_host() ? reader : writer).allocate_shared(bytes);
}

} // namespace paceline::gpu
