#include "apps/terminal/pull/fetch.hpp"

#include "apps/terminal/pull/arrival.hpp"
#include "apps/terminal/pull/part_file.hpp"
#include "apps/terminal/pull/progress.hpp"
#include "models/checkpoint/files.hpp"
#include "models/checkpoint/stores.hpp"
#include "text/json.hpp"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>
#include <optional>

namespace paceline::apps::pull {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

/// Says where a model came from, for `origin_file`.
std::string origin_of(const std::string& endpoint, const Wanted& wanted,
                      const Selection& selection) {
  json::array files;
  for (const HubFile& file : selection.files)
    files.push_back({{"path", file.path},
                     {"bytes", file.size},
                     {file.is_sha256 ? "sha256" : "git_sha1", file.digest}});
  return json::serialize(json::object{{"name", selection.name.text()},
                                      {"endpoint", endpoint},
                                      {"revision", wanted.revision},
                                      {"files", std::move(files)}}) +
         "\n";
}

/// Returns whether a model is here already. Error: it is, of another revision, or its place is
/// taken.
Result<bool> is_here(const fs::path& models, const models::ModelName& name,
                     const std::string& revision) {
  const fs::path place = place_of(models, name);
  const fs::path origin = place / models::origin_file;
  std::error_code ignored;
  if (!fs::exists(place, ignored))
    return false;
  if (!fs::exists(origin, ignored))
    return fail(ErrorCode::invalid_argument,
                text::shown_path(place.string()) + " is in the way, and was not pulled",
                "move it elsewhere, or set PACELINE_MODELS to another folder");
  const auto object = models::read_json_object(origin.string());
  const json::value* of = object ? object->if_contains("revision") : nullptr;
  if (of && of->is_string() && of->get_string() == revision)
    return true;
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} is here already, of {}", name.text(),
                          of && of->is_string() ? "revision " + std::string(of->get_string())
                                                : "a revision that is not known"),
              fmt::format("remove it first: paceline rm {}", name.text()));
}

class Fetching {
public:
  Fetching(Hub& hub, Wanted wanted, const Selection& selection, Arrival& arrival,
           Progress& progress, std::stop_token stop)
      : hub_(&hub), model_{wanted.name.base, wanted.revision}, selection_(&selection),
        arrival_(&arrival), progress_(&progress), stop_(std::move(stop)) {}

  Result<void> all() {
    for (const HubFile& file : selection_->files) {
      auto fetched = one(file);
      // What was here may have been of another revision, and is deleted now.
      if (!fetched && fetched.error().code == ErrorCode::corrupt && had_some_)
        fetched = one(file);
      if (!fetched)
        return fetched;
      progress_->done(file.size);
    }
    return {};
  }

private:
  Result<void> one(const HubFile& file) {
    progress_->check();
    auto part = PartFile::open(arrival_->folder(), file, stop_,
                               [this](std::uint64_t have) { progress_->show(have); });
    if (!part)
      return tl::unexpected(part.error());
    had_some_ = (*part)->have() > 0;
    progress_->fetch((*part)->have());
    if (!(*part)->complete())
      if (auto fetched = hub_->fetch(model_, file, **part); !fetched)
        return fetched;
    return (*part)->settle();
  }

  Hub* hub_;
  HubModel model_;
  const Selection* selection_;
  Arrival* arrival_;
  Progress* progress_;
  std::stop_token stop_;
  bool had_some_ = false;
};

} // namespace

Result<Fetched> fetch_model(const HubAccess& access, const Wanted& wanted, const fs::path& models,
                            const std::stop_token& stop) {
  const auto here = is_here(models, wanted.name, wanted.revision);
  if (!here)
    return tl::unexpected(here.error());
  if (*here)
    return Fetched{wanted.name, true};
  std::optional<Progress> progress;
  Hub hub(access, stop, [&](const std::string& text) {
    progress ? progress->remark(text) : Progress(wanted.name.text(), 0).remark(text);
  });
  const auto selection = hub.files({wanted.name.base, wanted.revision})
                             .and_then([&](const std::vector<HubFile>& files) {
                               return select_files(wanted.name, files);
                             });
  if (!selection)
    return tl::unexpected(selection.error());
  const auto chosen_here = is_here(models, selection->name, wanted.revision);
  if (!chosen_here)
    return tl::unexpected(chosen_here.error());
  if (*chosen_here)
    return Fetched{selection->name, true};
  auto arrival = Arrival::begin(models, selection->name);
  if (!arrival)
    return tl::unexpected(arrival.error());
  progress.emplace(selection->name.text(), selection->bytes());
  return arrival->check_room(selection->bytes())
      .and_then([&] { return Fetching(hub, wanted, *selection, *arrival, *progress, stop).all(); })
      .and_then([&] {
        return arrival->finish(*selection, origin_of(hub.endpoint(), wanted, *selection));
      })
      .map([&] { return Fetched{selection->name}; });
}

} // namespace paceline::apps::pull
