// A file that is arriving: what came is kept beside its name, and the file gets that name when all
// of it is there and is what the hub said.
#pragma once

#include "apps/terminal/pull/hub.hpp"
#include "models/checkpoint/digest.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>

namespace paceline::apps::pull {

class PartFile final : public Receiver {
public:
  /// Is called with the bytes that are there.
  using Watch = std::function<void(std::uint64_t)>;

  /// Opens what is there of a file in `folder`, part or whole, and reads it, since its digest goes
  /// on from there. Errors: the system's; `cancelled`, if it is stopped meanwhile.
  static Result<std::unique_ptr<PartFile>> open(const std::filesystem::path& folder, HubFile file,
                                                const std::stop_token& stop, Watch watch);
  ~PartFile() override;
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  std::uint64_t have() const override { return have_; }
  bool complete() const override { return have_ == file_.size; }
  Result<void> begin(std::uint64_t offset) override;
  Result<void> take(std::string_view bytes) override;

  /// Checks the digest, and gives the file its name. Error `corrupt`: it is another one, and is
  /// deleted. To be called once, when it is complete.
  Result<void> settle();

private:
  PartFile(std::filesystem::path place, HubFile file, Watch watch);
  Result<void> open_file();
  Result<void> read_present(const std::stop_token& stop);
  void start_digest();
  tl::unexpected<Error> cannot_write(int error_number) const;

  std::filesystem::path place_; ///< Where it will lie.
  std::filesystem::path part_;  ///< Where it lies.
  HubFile file_;
  Watch watch_;
  int descriptor_ = -1;
  std::uint64_t have_ = 0;
  std::optional<models::Digest> digest_;
};

} // namespace paceline::apps::pull
