#include "nodes/stage_opening.hpp"

#include "models/identity.hpp"
#include "models/stage_elsewhere.hpp"
#include "nodes/node_device.hpp"
#include "nodes/remote_stage.hpp"
#include "nodes/sending.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <vector>

namespace paceline::nodes {

using namespace messages;

namespace {

std::shared_ptr<RemoteStageParts> parts_of(const EngineOptions& o) {
  auto parts = std::make_shared<RemoteStageParts>();
  parts->heartbeat = o.faults.heartbeat;
  parts->retry_pause = o.faults.restart_pause_max / 4;
  parts->patience = o.faults.stage_patience;
  return parts;
}

/// Returns the addresses of the stage's node and of the one where it goes on when that node is
/// gone.
Result<std::vector<NodeAddress>> addresses_of(const EngineOptions& o, const StageDevice& device) {
  std::vector<NodeAddress> all{device.address()};
  if (o.reserve_device.empty())
    return all;
  return parse_node_address("EngineOptions::reserve_device", o.reserve_device)
      .map([&](NodeAddress&& reserve) {
        all.push_back(std::move(reserve));
        return all;
      });
}

/// Makes the request without the device.
Result<OpenStage> hello_of(const actors::ModelLoader& loader, const actors::LoadedModel& target,
                           const models::LayerRange& layers) {
  const std::string& location = target.source->location();
  const models::LoadOptions how = loader.load_options("target");
  OpenStage hello;
  hello.model = loader.options().target;
  hello.page_tokens = loader.options().page_tokens;
  hello.rows = loader.options().node_rows;
  return models::checkpoint_identity(location)
      .and_then([&](std::string&& identity) {
        hello.identity = std::move(identity);
        return models::sample_weights(location);
      })
      .map([&](std::string&& weights) {
        hello.layers = {std::move(weights), layers.first,      layers.count,    how.dtype,
                        how.blocks,         how.max_positions, how.int8_rows(), how.int8_cache()};
        return hello;
      });
}

/// Checks that the stage's pages have the size that this machine counts with, and that it has the
/// layers that were asked for.
Result<void> check(const StageOpened& opened, const models::StageElsewhere& stage, int page_tokens,
                   const std::string& node) {
  if (opened.info.layers != stage.layers().count || opened.info.shards != 1)
    return fail(ErrorCode::unsupported,
                fmt::format("{} has {} layers of {} in {} shards, and {} in one were asked for",
                            node, opened.info.layers, stage.info().name, opened.info.shards,
                            stage.layers().count),
                "install the same version of paceline on both machines");
  if (opened.page_bytes == stage.kv_shape(page_tokens).bytes())
    return {};
  return fail(ErrorCode::unsupported,
              fmt::format("a page of {} takes {} bytes on {}, and {} were expected",
                          stage.info().name, opened.page_bytes, node,
                          stage.kv_shape(page_tokens).bytes()),
              "install the same version of paceline on both machines");
}

} // namespace

Result<actors::StageThere> open_node_stage(const actors::ModelLoader& loader,
                                           const actors::LoadedModel& target,
                                           const models::Model& stage, caf::actor_system& system) {
  const EngineOptions& o = loader.options();
  const auto& elsewhere = dynamic_cast<const models::StageElsewhere&>(stage);
  const auto addresses = addresses_of(o, dynamic_cast<const StageDevice&>(stage.device()));
  if (!addresses)
    return tl::unexpected(addresses.error());
  auto hello = hello_of(loader, target, elsewhere.layers());
  if (!hello)
    return tl::unexpected(hello.error());
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max() / 4; // It is multiplied.
  const auto parts = parts_of(o);
  actors::StageThere out{nullptr, name_of(addresses->front()), most, {}};
  for (const NodeAddress& address : *addresses) {
    const std::string name = name_of(address);
    hello->device = address.device;
    const ModelFiles files{o.target, target.source->location(), hello->identity};
    auto opened =
        ask_and_send<StageOpened>(system, address, o, files, *hello)
            .and_then([&](StageOpened&& there) {
              return check(there, elsewhere, o.page_tokens, name).map([&] { return there; });
            });
    if (!opened)
      return tl::unexpected(opened.error());
    parts->places.push_back({{name, make_connector(address, o.node_tls)}, *hello});
    out.kv_bytes = std::min(out.kv_bytes, std::size_t(opened->kv_bytes));
    if (out.model)
      continue; // This was the reserve.
    opened->info.name = stage.info().name;
    opened->info.device = name;
    opened->info.crossing_rows = o.node_rows == NumberFormat::bf16 ? "bf16" : "f32";
    out.model = elsewhere.with_info(std::move(opened->info));
  }
  out.make_proxy = [parts](std::size_t pages) {
    auto own = std::make_shared<RemoteStageParts>(*parts);
    for (RemoteStageParts::Place& place : own->places)
      place.hello.pages = pages;
    return make_proxy(std::move(own));
  };
  return out;
}

} // namespace paceline::nodes
