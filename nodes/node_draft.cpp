#include "nodes/node_draft.hpp"

#include "actors/option_check.hpp"
#include "models/head.hpp"
#include "models/identity.hpp"
#include "models/sources.hpp"
#include "nodes/limits.hpp"
#include "nodes/remote_draft.hpp"
#include "nodes/sending.hpp"
#include "text/vocabulary_map.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::nodes {

namespace {

constexpr const char* device_field = "EngineOptions::draft_devices";

class NodeDraft final : public actors::DraftSource {
public:
  NodeDraft(RemoteDraftParts parts, ModelInfo info)
      : parts_(std::move(parts)), info_(std::move(info)) {}

  void adjust(speculation::PolicyOptions& policy,
              const actors::LoadedModel& target) const override {
    policy.prior_cost_ratio =
        std::clamp(double(info_.weight_bytes) / std::max(target.step_bytes(), 1.0), 0.005, 1.0);
    policy.fork_rows = std::min(policy.fork_rows, limits::node_forks_max); // No more of them cross.
  }
  /// Windows may come at any time over the network, so runs do not repeat.
  bool repeats() const override { return false; }
  std::vector<std::string> names() const override { return {actors::model_draft_name}; }
  std::optional<ModelInfo> info() const override { return info_; }

  Result<void> add_to(actors::EngineParts& parts, std::size_t /*pages*/,
                      std::size_t /*states*/) const override {
    RemoteDraftParts remote = parts_;
    remote.q_rows = parts.q_rows;
    remote.telemetry = parts.telemetry;
    parts.draft = actors::DraftModelParts{};
    parts.draft->telemetry = parts.telemetry;
    parts.draft->remote = make_proxy(std::move(remote));
    parts.facade.draft_context = info_.max_model_len;
    return {};
  }

private:
  RemoteDraftParts parts_;
  ModelInfo info_;
};

/// Refuses formats of a draft that a node loads in its own way.
Result<void> check_loading(const EngineOptions& o) {
  const auto check = [](bool given, const char* field, const char* value) -> Result<void> {
    if (!given)
      return {};
    return fail(ErrorCode::unsupported,
                fmt::format("EngineOptions::{} is {}, and {} is a node's, which loads the draft as "
                            "it is",
                            field, value, device_field),
                "leave it out");
  };
  return check(o.draft_weights.has_value(), "draft_weights",
               to_string(o.draft_weights.value_or(WeightFormat::mxfp4)))
      .and_then([&] {
        return check(o.draft_activations != Activations::automatic, "draft_activations",
                     to_string(o.draft_activations));
      })
      .and_then([&] {
        return check(o.draft_kv_cache_dtype != KvCacheDtype::automatic, "draft_kv_cache_dtype",
                     to_string(o.draft_kv_cache_dtype));
      });
}

/// Refuses drafts that a node cannot run.
Result<void> check_kind(const EngineOptions& o, const std::string& name) {
  if (o.virtual_time)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} is a node's, where time is not virtual", device_field),
                "give a sim device");
  if (o.custom_drafter || name.empty() || name == "suffix" || name == "ngram" ||
      models::is_self_draft(name) || models::is_head_draft(name))
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} has {}, and no draft model is given", device_field,
                            o.draft_devices.front()),
                "name a small model with EngineOptions::drafters; what needs no model drafts here");
  if (actors::drafter_names(o).size() > 1)
    return fail(
        ErrorCode::unsupported,
        fmt::format("EngineOptions::drafters has a look-up, and {} is a node's", device_field),
        "leave it out: a look-up drafts beside a model of this machine");
  return check_loading(o);
}

struct Files {
  std::string location;
  std::string identity;
  int vocabulary = 0; ///< The vocabulary of target and draft, which is the same.
};

/// Reads the draft's files on this machine.
Result<Files> read_files(const actors::LoadedModel& target, const std::string& name) {
  const auto source = models::open_checkpoint(name, "draft");
  if (!source)
    return tl::unexpected(source.error());
  const auto tokenizer = (*source)->tokenizer();
  if (!tokenizer)
    return tl::unexpected(tokenizer.error());
  const auto map = text::map_vocabularies(*target.tokenizer, **tokenizer);
  if (!map)
    return tl::unexpected(map.error());
  if (*map)
    return fail(ErrorCode::unsupported,
                fmt::format("the draft {} has another vocabulary than the target, and {} is a "
                            "node's",
                            name, device_field),
                "give a draft with the target's vocabulary, or a device of this machine");
  const int vocabulary = std::min(target.tokenizer->vocabulary(), target.model->vocabulary());
  return models::checkpoint_identity((*source)->location()).map([&](std::string&& identity) {
    return Files{(*source)->location(), std::move(identity), vocabulary};
  });
}

} // namespace

Result<std::unique_ptr<actors::DraftSource>> node_draft(const actors::ModelLoader& loader,
                                                        const actors::LoadedModel& target,
                                                        int max_model_len,
                                                        caf::actor_system& system) {
  const EngineOptions& o = loader.options();
  const std::string name = actors::draft_name(o);
  if (auto possible = check_kind(o, name); !possible)
    return tl::unexpected(possible.error());
  const auto address = parse_node_address(device_field, o.draft_devices.front());
  if (!address)
    return tl::unexpected(address.error());
  const auto files = read_files(target, name);
  if (!files)
    return tl::unexpected(files.error());
  auto host = loader.open_device("cpu", 1);
  if (!host)
    return tl::unexpected(host.error());
  RemoteDraftParts parts = remote_draft_parts(*address, o.node_tls);
  parts.hello.device = address->device;
  parts.hello.model = name;
  parts.hello.identity = files->identity;
  parts.hello.vocabulary = files->vocabulary;
  parts.hello.max_model_len = max_model_len;
  parts.hello.max_num_seqs = o.max_num_seqs;
  parts.hello.fork_rows = actors::fork_rows_of(o);
  parts.heartbeat = o.faults.heartbeat;
  parts.top_k = o.draft_top_k;
  parts.host = *host;
  const ModelFiles sent{name, files->location, files->identity};
  return ask_and_send<messages::DraftOpened>(system, *address, o, sent, parts.hello)
      .map([&](messages::DraftOpened&& there) -> std::unique_ptr<actors::DraftSource> {
        there.info.name = name;
        there.info.device = o.draft_devices.front();
        return std::make_unique<NodeDraft>(std::move(parts), std::move(there.info));
      });
}

} // namespace paceline::nodes
