#include "actors/node/node_parts.hpp"

#include "actors/limits.hpp"
#include "actors/node/guest.hpp"
#include "models/checkpoint/identity.hpp"
#include "models/limits.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

namespace paceline::actors {

using messages::OpenDraft;

namespace {

/// An engine says so, whoever that is.
Result<void> check(const OpenDraft& wanted) {
  if (wanted.vocabulary < 1 || wanted.max_num_seqs < 1 || wanted.max_model_len < 1 ||
      wanted.max_num_seqs > limits::max_num_seqs_max ||
      wanted.max_model_len > models::limits::context_max ||
      wanted.vocabulary > models::limits::context_max)
    return fail(ErrorCode::invalid_argument, "the engine asks for a draft that cannot be");
  if (std::int64_t(wanted.max_model_len) * wanted.max_num_seqs > limits::guest_tokens_max)
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("a node drafts for {} tokens at a time, and {} sequences of {} are more",
                    limits::guest_tokens_max, wanted.max_num_seqs, wanted.max_model_len),
        "lower EngineOptions::max_num_seqs or EngineOptions::max_model_len");
  return {};
}

} // namespace

std::string NodeParts::device_of(const OpenDraft& wanted) const {
  return wanted.device.empty() ? devices.front().name : wanted.device;
}

NodeParts::OfferRef NodeParts::find_loaded(const std::string& identity, const std::string& device) {
  const auto fits = [&](const OfferRef& offer) {
    return offer && offer->identity == identity && offer->info.device == device;
  };
  if (const auto found = std::ranges::find_if(offers, fits); found != offers.end())
    return *found;
  const std::lock_guard lock(mutex_);
  for (const auto& each : kept_)
    if (OfferRef offer = each.lock(); fits(offer))
      return offer;
  return nullptr;
}

NodeParts::Found NodeParts::find(const OpenDraft& wanted) {
  const auto no = [](const Result<void>& why) { return Found{nullptr, false, why.error(), false}; };
  if (const auto possible = check(wanted); !possible)
    return no(possible);
  const std::string device = device_of(wanted);
  std::vector<std::string> names;
  for (const NamedDevice& each : devices)
    names.push_back(each.name);
  if (std::ranges::find(names, device) == names.end())
    return no(fail(ErrorCode::not_found, "the node has no device " + device,
                   fmt::format("give one that it has: {}", fmt::join(names, ", "))));
  if (OfferRef offer = find_loaded(wanted.identity, device))
    return {std::move(offer), false, {}, false};
  if (cache && cache->find(wanted.identity))
    return {nullptr, true, {}, false};
  std::vector<std::string> models;
  for (const OfferRef& offer : offers)
    models.push_back(offer->info.name);
  Found none = no(fail(
      ErrorCode::not_found,
      fmt::format("the node has other models ({}) than {}, or other files of it",
                  fmt::join(models, ", "), wanted.model),
      "start it with -m and a copy of the draft's folder, or with --accept-models to be sent it"));
  none.takes_files = cache != nullptr;
  return none;
}

Result<NodeParts::OfferRef> NodeParts::load(const std::string& name,
                                            const std::string& device) const {
  const ModelLoader loader(loading, time, nullptr);
  auto model = loader.load(name, "draft", device, 0);
  if (!model)
    return tl::unexpected(model.error());
  auto identity = models::checkpoint_identity(model->source->location());
  if (!identity)
    return tl::unexpected(identity.error());
  ModelInfo info = model->info(name);
  info.device = device; // by this name an engine asks for it
  return std::make_shared<const Offer>(
      Offer{std::move(*model), std::move(info), std::move(*identity)});
}

Result<void> NodeParts::load_kept(const OpenDraft& wanted) {
  const std::lock_guard one_at_a_time(loading_);
  const std::string device = device_of(wanted);
  const auto folder = cache->find(wanted.identity);
  if (!folder || find_loaded(wanted.identity, device))
    return {};
  auto offer = load(*folder, device);
  if (!offer) {
    if (offer.error().code == ErrorCode::corrupt)
      cache->drop(wanted.identity); // it may be sent again
    return tl::unexpected(offer.error());
  }
  const std::lock_guard lock(mutex_);
  std::erase_if(kept_, [](const auto& each) { return each.expired(); });
  kept_.emplace_back(*offer);
  newest_ = std::move(*offer);
  return {};
}

messages::Surveyed NodeParts::survey() {
  messages::Surveyed all;
  for (const NamedDevice& each : devices) {
    const gpu::DeviceMemory memory = each.device->memory();
    all.devices.push_back({each.name, each.device->kernel(), memory.total, memory.available});
  }
  for (const OfferRef& offer : offers)
    all.models.push_back(offer->info);
  const std::lock_guard lock(mutex_);
  for (const auto& each : kept_)
    if (const OfferRef offer = each.lock())
      all.models.push_back(offer->info);
  all.engines = count_guests();
  all.engines_max = limits::guests_max;
  all.kept_bytes = cache ? cache->kept_bytes() : 0;
  all.kept_max = cache ? cache->bytes_max() : 0;
  return all;
}

// ---- guests ----

caf::actor NodeParts::welcome(caf::actor_system& system, const std::shared_ptr<NodeParts>& self) {
  const std::lock_guard lock(mutex_);
  if (closed_ || count_guests() >= limits::guests_max)
    return nullptr;
  std::erase_if(guests_,
                [](const caf::actor_addr& guest) { return !caf::actor_cast<caf::actor>(guest); });
  const auto guest = caf::actor_cast<caf::actor>(messages::spawn<Guest>(system, self, place_));
  guests_.push_back(guest.address());
  return guest;
}

void NodeParts::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (const caf::actor_addr& guest : guests_)
    if (const auto alive = caf::actor_cast<caf::actor>(guest))
      caf::anon_send_exit(alive, caf::exit_reason::user_shutdown);
}

} // namespace paceline::actors
