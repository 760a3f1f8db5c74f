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

/// A model that is arriving. What is there stays when the connection is cut, and whoever sends the
/// same files goes on behind it. Threads: one.
class ArrivingModel {
public:
  /// Bytes that are there of each file.
  const std::vector<std::uint64_t>& present() const { return present_; }
  /// True: this was the last part, and the model is in the cache. Throws std::invalid_argument at
  /// what cannot be. Errors: a full disk; a file, or all of them, that are not what was announced.
  Result<bool> take(const messages::ModelPart& part);
  /// The same without a part, for what was there already.
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
  std::size_t current_ = 0; ///< The file that is being written.
  FileHandle to_;
  models::Digest digest_; ///< Digest of the bytes of it that are there.
};

/// What a model that is admitted may still take is promised to it: the folder of an arriving model
/// has a file that says how much, and is locked as long as somebody sends it, whatever ends that.
/// Threads: any. Several nodes may have one folder.
class ModelCache {
public:
  /// Makes the folder. bytes_max: of all files in it.
  static Result<std::shared_ptr<ModelCache>> open(const std::string& folder,
                                                  std::uint64_t bytes_max);

  /// The folder of a model, which is there as a whole; none: it is not.
  std::optional<std::string> find(const std::string& identity) const;
  /// Begins to take a model, or goes on where it was cut off. It takes the time to read what is
  /// there. Throws std::invalid_argument at what cannot be. Errors: no room for it; somebody else
  /// is sending it (overloaded).
  Result<std::unique_ptr<ArrivingModel>> begin(const messages::SendModel& what);
  /// It turned out to be damaged.
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

/// For who admits a model to a cache, or changes what is there of it: nobody else does meanwhile.
FileHandle lock_cache(const std::string& cache);

/// Returns the folder where models are kept unless somebody says otherwise: paceline/models in the
/// user's cache.
std::string default_model_cache();

} // namespace paceline::nodes
