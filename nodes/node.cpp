#include "nodes/node.hpp"

#include "models/identity.hpp"
#include "models/sources.hpp"
#include "models/synthetic/scripted_options.hpp"

namespace paceline::nodes {

Node::Node(const NodeOptions& options)
    : runtime_(std::make_unique<actors::Runtime>(
          std::nullopt, [&](auto& config) { add_network(config, options.tls); },
          base::Log(options.loading.log))),
      closer_(std::make_shared<execution::LaneCloser>(false)),
      parts_(std::make_shared<NodeParts>()), sessions_(std::make_shared<NodeSessions>(parts_)) {
  parts_->closer = closer_;
  parts_->time = runtime_->time();
  parts_->clock_ahead = options.clock_ahead;
  parts_->kv_memory_bytes = options.kv_memory_bytes;
  parts_->telemetry = std::make_shared<base::Telemetry>();
  parts_->telemetry->time = runtime_->time();
  parts_->telemetry->log = base::Log(options.loading.log);
}

Result<std::unique_ptr<Node>> Node::open(const NodeOptions& options) {
  if (auto usable = check_tls(options.tls); !usable)
    return tl::unexpected(usable.error());
  std::unique_ptr<Node> node(new Node(options));
  return node->load(options).and_then([&] { return node->listen(options); }).map([&] {
    return std::move(node);
  });
}

Result<void> Node::load(const NodeOptions& options) {
  parts_->loading = options.loading;
  const actors::ModelLoader loader(parts_->loading, runtime_->time(), nullptr);
  auto host = loader.open_device("cpu", 1);
  if (!host)
    return tl::unexpected(host.error());
  parts_->host = *host;
  for (const std::string& name : options.devices) {
    auto device = loader.open_device(name, 0);
    if (!device)
      return tl::unexpected(device.error());
    parts_->devices.push_back({name, std::move(*device)});
    for (const std::string& model : options.models) {
      auto offer = parts_->load(model, name);
      if (!offer)
        return tl::unexpected(offer.error());
      parts_->offers.push_back(std::move(*offer));
    }
  }
  parts_->loading.progress = nullptr; // Engines' models are loaded on other threads.
  return find_targets(options).and_then([&] { return open_cache(options); });
}

/// Finds the targets' identities, which are digests of their content; weights wait until an engine
/// asks.
Result<void> Node::find_targets(const NodeOptions& options) {
  for (const std::string& name : options.targets) {
    if (models::is_scripted(name))
      return fail(ErrorCode::unsupported, name + " has no layers that an engine could have here",
                  "name the folder of a checkpoint");
    auto found = models::open_checkpoint(name, "target").and_then([](const auto& source) {
      return models::checkpoint_identity(source->location()).map([&](std::string&& identity) {
        return NodeParts::Files{std::move(identity), source->location()};
      });
    });
    if (!found)
      return tl::unexpected(found.error());
    parts_->targets.push_back(std::move(*found));
  }
  return {};
}

Result<void> Node::open_cache(const NodeOptions& options) {
  if (options.accept_models_bytes == 0)
    return {};
  return ModelCache::open(options.model_cache.empty() ? default_model_cache() : options.model_cache,
                          options.accept_models_bytes)
      .map([&](auto cache) { parts_->cache = std::move(cache); });
}

/// Opens the socket, from which nothing is accepted yet.
Result<void> Node::listen(const NodeOptions& options) {
  const auto listening = listen_at(options.listen, options.tls);
  if (!listening)
    return tl::unexpected(listening.error());
  port_ = listening->port;
  actors::apart_from_caller([&] {
    door_ = open_door(
        runtime_->system(), listening->socket, options.tls,
        [all = sessions_, system = &runtime_->system()] { return all->welcome(*system); });
  });
  return {};
}

std::vector<std::string> Node::devices() const {
  std::vector<std::string> all;
  for (const auto& device : parts_->devices)
    all.push_back(device.name);
  return all;
}

Node::~Node() {
  if (door_)
    caf::anon_send_exit(door_, caf::exit_reason::user_shutdown);
  door_ = nullptr;
  sessions_->close();
  runtime_->await_actors();
  closer_->close();
  runtime_ = nullptr;
}

} // namespace paceline::nodes
