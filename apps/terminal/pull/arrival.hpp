// A model that is arriving: a folder beside the place where it will lie, with a name that no model
// can have. What came stays there when a run ends early.
#pragma once

#include "apps/terminal/pull/selection.hpp"

#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>

namespace paceline::apps::pull {

/// Return the folder of a model of this name below `models`, and the one in which it arrives.
std::filesystem::path place_of(const std::filesystem::path& models, const models::ModelName& name);
std::filesystem::path part_of(const std::filesystem::path& models, const models::ModelName& name);

/// Holds the folder's lock while it lives.
class Arrival {
public:
  /// Makes the folder, or takes the one that is there. Errors: the system's; another process has
  /// it.
  static Result<Arrival> begin(const std::filesystem::path& models, const models::ModelName& name);
  Arrival(Arrival&& other) noexcept;
  ~Arrival();
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  /// Fails if the disk has no room for all of this, as far as it is not here.
  Result<void> check_room(std::uint64_t bytes) const;
  /// Deletes what is none of the files, and gives the folder its name. origin: what its
  /// origin_file holds.
  Result<void> finish(const Selection& selection, const std::string& origin);

private:
  Arrival(std::filesystem::path folder, std::filesystem::path place, int lock)
      : folder_(std::move(folder)), place_(std::move(place)), lock_(lock) {}

  std::filesystem::path folder_;
  std::filesystem::path place_;
  int lock_;
};

} // namespace paceline::apps::pull
