#include "apps/terminal/pull/hub.hpp"

#include "apps/terminal/limits.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <fmt/format.h>
#include <iterator>
#include <mutex>

namespace paceline::apps::pull {
namespace {

/// Keeps a page of the list in memory.
class Page final : public Receiver {
public:
  std::uint64_t have() const override { return 0; } // A page is asked for as a whole.
  bool complete() const override { return true; }
  Result<void> begin(std::uint64_t /*offset*/) override {
    text_.clear();
    return {};
  }
  Result<void> take(std::string_view bytes) override {
    if (text_.size() + bytes.size() > limits::hub_list_bytes)
      return fail(ErrorCode::corrupt,
                  fmt::format("the hub's list of files is longer than {} MiB",
                              limits::hub_list_bytes >> 20),
                  "check HF_ENDPOINT");
    text_ += bytes;
    return {};
  }
  const std::string& text() const { return text_; }

private:
  std::string text_;
};

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// Whether another try may do better.
bool may_pass(const Reply& reply) {
  if (reply.ending == Reply::Ending::cut)
    return true;
  const int status = reply.status;
  return reply.ending == Reply::Ending::whole &&
         (reply.has_body() || status == 408 || status == 429 || status >= 500);
}

tl::unexpected<Error> interrupted() {
  return fail(ErrorCode::cancelled, "interrupted: what has arrived is kept",
              "the same command goes on from there");
}

} // namespace

Result<HubAccess> HubAccess::from_environment() {
  HubAccess access;
  if (std::string endpoint = pull::from_environment("HF_ENDPOINT"); !endpoint.empty()) {
    while (endpoint.ends_with('/'))
      endpoint.pop_back();
    if (!endpoint.starts_with("https://") && !endpoint.starts_with("http://"))
      return fail(ErrorCode::invalid_argument, "HF_ENDPOINT is no address of a hub",
                  "give it as https://huggingface.co, or unset it");
    access.endpoint = std::move(endpoint);
  }
  access.token = pull::from_environment("HF_TOKEN");
  if (!std::ranges::all_of(access.token, [](char c) { return c > ' ' && c < 0x7f; }))
    return fail(ErrorCode::invalid_argument, "HF_TOKEN has blanks or other characters in it",
                "set it to the token alone");
  return access;
}

Hub::Hub(HubAccess access, std::stop_token stop, std::function<void(const std::string&)> remark)
    : access_(std::move(access)), stop_(stop), remark_(std::move(remark)),
      transfer_(std::move(stop)) {}

Result<std::vector<HubFile>> Hub::files(const HubModel& model) {
  const std::string all = fmt::format("{}/api/models/{}/tree/{}", access_.endpoint,
                                      escaped(model.id, true), escaped(model.revision, false));
  std::string url = all + "?recursive=true";
  std::vector<HubFile> files;
  for (int pages = 0; !url.empty(); ++pages) {
    // The token goes with each request, so no page may be anywhere else.
    if (pages == limits::hub_pages_max || !url.starts_with(all + "?"))
      return fail(ErrorCode::corrupt, "the hub's list of files goes on without end, or elsewhere",
                  "check HF_ENDPOINT");
    Page page;
    const auto reply = ask(model, url, page);
    if (!reply)
      return tl::unexpected(reply.error());
    auto listed = parse_hub_list(page.text());
    if (!listed)
      return listed;
    std::ranges::move(*listed, std::back_inserter(files));
    url = next_page(reply->header("link"));
  }
  return files;
}

Result<void> Hub::fetch(const HubModel& model, const HubFile& file, Receiver& receiver) {
  return ask(model,
             fmt::format("{}/{}/resolve/{}/{}", access_.endpoint, escaped(model.id, true),
                         escaped(model.revision, false), escaped(file.path, true)),
             receiver)
      .map([](const Reply&) {});
}

/// Makes a request until nothing is missing. A try that brought some bytes counts for nothing: on
/// bad lines large files take many.
Result<Reply> Hub::ask(const HubModel& model, const std::string& url, Receiver& receiver) {
  for (int failures = 0;;) {
    const std::uint64_t before = receiver.have();
    Reply reply = transfer_.get(url, access_.token, receiver);
    if (reply.ending == Reply::Ending::stopped || stop_.stop_requested())
      return interrupted();
    if (reply.ending == Reply::Ending::refused)
      return tl::unexpected(reply.error);
    const bool ended = reply.ending == Reply::Ending::whole && reply.has_body();
    if (ended && receiver.complete()) {
      reached_ = true;
      return reply;
    }
    failures = receiver.have() > before ? 0 : failures + 1;
    const bool reached = std::exchange(reached_, reached_ || reply.status != 0);
    // Somebody without a network should not have to wait to be told.
    if (!may_pass(reply) || failures == limits::hub_tries || (!reached && reply.status == 0))
      return tl::unexpected(hub_error(access_, model, reply));
    if (failures == 0)
      continue;
    if (auto waited = pause(reply, failures); !waited)
      return tl::unexpected(waited.error().code == ErrorCode::cancelled
                                ? waited.error()
                                : hub_error(access_, model, reply));
  }
}

/// Waits before the next try. Error: it was stopped, or the hub wants more patience than there is.
Result<void> Hub::pause(const Reply& reply, int failures) {
  const std::chrono::seconds pause(
      reply.retry_after.value_or(limits::hub_pause.count() << (failures - 1)));
  if (pause > limits::hub_pause_max)
    return fail(ErrorCode::unavailable, "");
  if (pause.count() > 0)
    remark_(fmt::format("{}; trying again in {} s",
                        reply.ending == Reply::Ending::whole
                            ? fmt::format("the hub answers HTTP {}", reply.status)
                            : reply.problem,
                        pause.count()));
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any stopped;
  if (stopped.wait_for(lock, stop_, pause, [this] { return stop_.stop_requested(); }))
    return interrupted();
  return {};
}

} // namespace paceline::apps::pull
