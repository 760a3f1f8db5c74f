#include "actors/node/node.hpp"

#include "models/checkpoint/identity.hpp"
#include "models/sources.hpp"

#include <algorithm>

namespace paceline::actors {

Node::Node(const NodeOptions& options)
    : runtime_(std::make_unique<Runtime>(std::nullopt, options.tls)),
      closer_(std::make_shared<execution::LaneCloser>(false)),
      parts_(std::make_shared<NodeParts>()) {
  parts_->closer = closer_;
  parts_->kv_memory_bytes = options.kv_memory_bytes;
  parts_->telemetry = std::make_shared<base::Telemetry>();
  parts_->telemetry->time = runtime_->time();
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
  const ModelLoader loader(options.loading, runtime_->time(), nullptr);
  auto host = loader.open_device("cpu", 1);
  if (!host)
    return tl::unexpected(host.error());
  parts_->host = *host;
  for (const std::string& device : options.devices)
    for (const std::string& name : options.models) {
      auto model = loader.load(name, "draft", device, 0);
      if (!model)
        return tl::unexpected(model.error());
      auto identity = models::checkpoint_identity(model->source->location());
      if (!identity)
        return tl::unexpected(identity.error());
      ModelInfo info = model->info(name);
      info.device = device; // by this name an engine asks for it
      parts_->offers.push_back({std::move(*model), std::move(info), std::move(*identity)});
    }
  return {};
}

/// A socket that nobody has accepted from yet.
Result<void> Node::listen(const NodeOptions& options) {
  const auto listening = listen_at(options.listen, options.tls);
  if (!listening)
    return tl::unexpected(listening.error());
  port_ = listening->port;
  apart_from_caller([&] {
    door_ = open_door(
        runtime_->system(), listening->socket, options.tls,
        [parts = parts_, system = &runtime_->system()] { return parts->welcome(*system, parts); });
  });
  return {};
}

std::vector<std::string> Node::devices() const {
  std::vector<std::string> all;
  for (const NodeParts::Offer& offer : parts_->offers)
    if (std::ranges::find(all, offer.info.device) == all.end())
      all.push_back(offer.info.device);
  return all;
}

Node::~Node() {
  if (door_)
    caf::anon_send_exit(door_, caf::exit_reason::user_shutdown);
  door_ = nullptr;
  parts_->close();
  runtime_->await_actors();
  closer_->close();
  runtime_ = nullptr;
}

} // namespace paceline::actors
