// Engine::open, which gives the engine nodes for its drafts and stages.
#include "actors/engine.hpp"
#include "nodes/nodes.hpp"

namespace paceline {

Result<Engine> Engine::open(EngineOptions options) {
  const nodes::Nodes machines;
  auto impl = Impl::open(std::move(options), &machines);
  if (!impl)
    return tl::unexpected(impl.error());
  return Engine(std::move(*impl));
}

} // namespace paceline
