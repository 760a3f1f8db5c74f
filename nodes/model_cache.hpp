// Models that engines have sent to a node: a folder of them, which outlives the node.
#pragma once

#include "messages/node.hpp"
#include "models/checkpoint/digest.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace paceline::nodes {

/// An open file, or a folder's lock.
class FileHandle {
public:
  explicit FileHandle(int number = -1) : number_(number) {}
  FileHandle(FileHandle&& other) noexcept;
  FileHandle& operator=(FileHandle&& other) noexcept;
  ~FileHandle();
  int number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

private:
  int number_;
};

/// A model that is arriving. The parts that have arrived stay when the connection is cut, and
/// whoever sends the same files goes on behind them. Threads: one.
class ArrivingModel {
public:
  /// Returns how many bytes of each file have arrived.
  const std::vector<std::uint64_t>& present() const { return present_; }
  /// Takes a part. True: this was the last one, and the model is in the cache. Throws
  /// std::invalid_argument at a part that cannot follow. Errors: a full disk; one file, or the
  /// model, is not what was announced.
  Result<bool> take(const messages::ModelPart& part);
  /// Does the same without a part, for files that had arrived before.
  Result<bool> settle();

private:
  friend class ModelCache;
  ArrivingModel(std::string cache, messages::SendModel what, FileHandle lock);
  Result<void> look();
  void drop_others() const;
  Result<void> open_file();
  bool is_whole() const;
  Result<void> write(std::string_view bytes);
  Result<void> end_file();
  Result<bool> store();
  Result<void> move_to_models() const;
  std::string folder() const;
  std::string path_of(std::size_t file) const;

  std::string cache_;
  messages::SendModel what_;
  FileHandle lock_;
  std::vector<std::uint64_t> present_;
  std::size_t current_ = 0; ///< Index of the file that is being written.
  FileHandle to_;
  models::Digest digest_; ///< Digest of the bytes of that file that have arrived.
};

/// The models that engines have sent. Each admitted model is promised the bytes that it may still
/// take: the folder of an arriving model has a file that says how much, and is locked as long as
/// somebody sends it, however that ends. Threads: any. Several nodes may share a folder.
class ModelCache {
public:
  /// Makes the folder. bytes_max: limit for all files in it.
  static Result<std::shared_ptr<ModelCache>> open(const std::string& folder,
                                                  std::uint64_t bytes_max);

  /// Returns the folder of a whole model; none if it is not there.
  std::optional<std::string> find(const std::string& identity) const;
  /// Begins to take a model, or goes on where it was cut off. Reads what has arrived before, which
  /// takes time. Throws std::invalid_argument at an announcement that cannot be. Errors: no room
  /// for it; somebody else is sending it (overloaded).
  Result<std::unique_ptr<ArrivingModel>> begin(const messages::SendModel& what);
  /// Removes a model that turned out to be damaged.
  void drop(const std::string& identity);

  std::uint64_t kept_bytes() const;
  std::uint64_t bytes_max() const { return bytes_max_; }

private:
  ModelCache(std::string folder, std::uint64_t bytes_max)
      : folder_(std::move(folder)), bytes_max_(bytes_max) {}
  Result<std::unique_ptr<ArrivingModel>> take_folder(const messages::SendModel& what) const;
  Result<void> make_room(std::uint64_t bytes, const std::string& own) const;
  std::uint64_t promised_bytes(const std::string& but_to) const;
  void drop_abandoned() const;

  std::string folder_;
  std::uint64_t bytes_max_;
};

/// Takes the cache's lock, under which models are admitted and files are moved: nobody else does
/// either meanwhile.
FileHandle lock_cache(const std::string& cache);

/// Returns the folder where models are kept by default: paceline/models in the user's cache.
std::string default_model_cache();

} // namespace paceline::nodes
