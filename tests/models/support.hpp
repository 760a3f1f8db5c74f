// What the tests of this layer share.
#pragma once

#include "gpu/device.hpp"
#include "models/model.hpp"
#include "tests/support/files.hpp"
#include "tests/support/temporary_folder.hpp"

#include <boost/json/fwd.hpp>
#include <filesystem>
#include <functional>
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

/// A list of ids in a reference file.
std::vector<TokenId> ids_of(const boost::json::value& list);

/// A cache and a lane to run a model's passes on, one after the other.
class Runner {
public:
  Runner(std::shared_ptr<const Model> model, int page_tokens, std::size_t pages = 256,
         int max_rows = 1024, int max_logit_rows = 1024);
  ~Runner();

  /// Pages for `tokens` positions of one sequence, in an order of their own.
  std::vector<std::uint32_t> take_pages(int tokens);
  gpu::KvPool& pool() { return *pool_; }

  /// One pass; the logits it leaves, row by row.
  std::vector<std::vector<float>> run(std::span<const SequenceRows> batch);

private:
  std::shared_ptr<const Model> model_;
  std::shared_ptr<gpu::KvPool> pool_;
  std::vector<gpu::PageRef> held_;
  std::unique_ptr<Workspace> workspace_;
  std::unique_ptr<gpu::Lane> lane_;
};

/// All rows of logits of one sequence in one pass.
std::vector<std::vector<float>> logits_of(const std::shared_ptr<const Model>& model,
                                          std::span<const TokenId> tokens);

} // namespace paceline::models::test
