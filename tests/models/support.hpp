// What the tests of this layer share.
#pragma once

#include "gpu/device.hpp"
#include "models/load.hpp"
#include "tests/support/files.hpp"
#include "tests/support/temporary_folder.hpp"

#include <atomic>
#include <boost/json/fwd.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::models::test {

using testing::data;
using testing::demo;
using testing::read_file;
using testing::TemporaryFolder;

/// Links what another folder holds, so that a test may replace one file.
void link_all(const std::string& from, const TemporaryFolder& into);

/// A device by name, on a real clock.
std::shared_ptr<gpu::Device> device(const std::string& name = "cpu", int threads = 1);
/// So many of them as one, for a shard on each.
std::shared_ptr<gpu::Device> group(int shards, const std::string& name = "cpu", int threads = 1);

/// The model at a location, on one device.
Result<std::shared_ptr<const Model>>
load(const std::string& location, std::shared_ptr<gpu::Device> device, const LoadOptions& options);

Stages load_stages(const CheckpointSource& source, const Devices& devices,
                   const LoadOptions& options = {});

/// What a name or a folder is opened as.
std::shared_ptr<const CheckpointSource> source_of(const std::string& name);

using Rows = std::vector<std::vector<float>>;
bool same_bits(const Rows& a, const Rows& b);
/// The largest RMS(difference) / RMS(reference) of any row; NaN counts as largest.
double worst_error(const Rows& rows, const Rows& reference);
/// The same of one row, whose reference is a list of numbers.
double error_of(const std::vector<float>& row, const boost::json::value& reference);
std::vector<TokenId> some_tokens(int count, int vocabulary);

/// A list of ids in a reference file.
std::vector<TokenId> ids_of(const boost::json::value& list);

/// Caches and lanes to run a model's passes on, one after the other: one of each for every stage.
class Runner {
public:
  Runner(std::shared_ptr<const Model> model, int page_tokens, std::size_t pages = 256,
         int max_rows = 1024, int max_logit_rows = 1024);
  Runner(const std::vector<std::shared_ptr<const Model>>& stages, int page_tokens,
         std::size_t pages = 256, int max_rows = 1024, int max_logit_rows = 1024);
  ~Runner();

  /// Pages for `tokens` positions of one sequence, in an order of their own, and its state where
  /// layers are recurrent: `run` finds it by the first page.
  std::vector<std::uint32_t> take_pages(int tokens);
  gpu::KvPool& pool(std::size_t stage = 0) { return *stages_[stage].pool; }

  /// One pass; the logits it leaves, row by row.
  Rows run(std::span<const SequenceRows> batch);
  /// How often a stage has said that it is in its last layer.
  int nearly_done() const { return nearly_done_; }

private:
  struct Stage {
    std::shared_ptr<const Model> model;
    std::shared_ptr<gpu::KvPool> pool;
    std::unique_ptr<Workspace> workspace;
    std::shared_ptr<gpu::Buffer> left; ///< Null: it is the last.
    std::unique_ptr<gpu::Lane> lane;
  };
  std::vector<Stage> stages_;
  std::atomic<int> nearly_done_{0};
  static constexpr std::size_t states_max = 64;
  std::map<std::uint32_t, std::uint32_t> states_; ///< By the sequence's first page.
  std::vector<gpu::PageRef> held_;                ///< The first stage's: one number for all.
};

/// All rows of a sequence that is fed in pieces of `chunk`, with a stranger's rows before each if
/// it has company.
Rows in_pieces(const Stages& stages, const std::vector<TokenId>& tokens, int chunk = 1000,
               bool company = false, int page_tokens = 8);

/// All rows of logits of one sequence in one pass.
Rows logits_of(const std::shared_ptr<const Model>& model, std::span<const TokenId> tokens);
/// Returns the logits of the checkpoint at a location, which has a reference case's vocabulary.
Rows logits_at(const std::string& location, const LoadOptions& options = {});

} // namespace paceline::models::test
