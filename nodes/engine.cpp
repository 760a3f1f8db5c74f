// Engine::open: an engine that is given nodes to have its drafts and stages on.
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
