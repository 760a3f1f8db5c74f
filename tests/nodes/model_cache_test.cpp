// Models that engines send to a node: what is there after a cut, damage, lies and a full disk.
#include "models/identity.hpp"
#include "nodes/limits.hpp"
#include "nodes/model_cache.hpp"
#include "tests/support/files.hpp"
#include "tests/support/says.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <stdexcept>
#include <sys/mount.h>
#include <unistd.h>

using namespace paceline;
using namespace paceline::nodes;
using namespace paceline::testing;

namespace {

/// The demo draft, as an engine announces it.
struct Model {
  messages::SendModel announced;
  std::vector<std::string> contents;

  Model() {
    const std::string folder = std::string(PACELINE_DEMO_MODELS) + "/draft";
    announced.identity = *models::checkpoint_identity(folder);
    const auto paths = models::checkpoint_files(folder);
    for (const std::string& path : paths.value()) {
      contents.push_back(read_file(path));
      announced.files.push_back({std::filesystem::path(path).filename().string(),
                                 contents.back().size(), hash(contents.back())});
    }
  }
  static std::string hash(const std::string& content) {
    models::Digest digest;
    digest.add(content);
    return digest.hex();
  }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& content : contents)
      sum += content.size();
    return sum;
  }
};

std::shared_ptr<ModelCache> open_cache(const std::string& folder, std::uint64_t most = 100 << 20) {
  auto cache = ModelCache::open(folder, most);
  REQUIRE(cache);
  return *cache;
}

/// Sends at most `parts` parts, in pieces of 100,000 bytes.
Result<bool> send(ArrivingModel& to, const Model& model, int parts = 1000) {
  for (std::uint32_t i = 0; i < model.contents.size(); ++i)
    while (to.present()[i] < model.contents[i].size()) {
      if (parts-- == 0)
        return false;
      const auto at = to.present()[i];
      auto whole = to.take({i, at, model.contents[i].substr(at, 100'000)});
      if (!whole || *whole)
        return whole;
    }
  return to.settle();
}

std::uint64_t sum(const std::vector<std::uint64_t>& sizes) {
  std::uint64_t all = 0;
  for (const auto size : sizes)
    all += size;
  return all;
}

/// A small disk of its own. Without the right to mount one there is none.
struct SmallDisk {
  TemporaryFolder folder;
  bool there;
  explicit SmallDisk(std::uint64_t bytes)
      : there(::mount("none", folder.path().c_str(), "tmpfs", 0,
                      ("size=" + std::to_string(bytes)).c_str()) == 0) {}
  ~SmallDisk() {
    if (there)
      ::umount2(folder.path().c_str(), MNT_DETACH);
  }
};

} // namespace

TEST_CASE(
    "a model that was cut off goes on where it ended, and nobody sees it before it is whole") {
  const TemporaryFolder folder;
  const Model model;
  std::uint64_t before = 0;
  for (int parts : {3, 1, 5, 0}) {
    const auto cache = open_cache(folder.path());
    const auto arriving = cache->begin(model.announced);
    REQUIRE(arriving);
    CHECK(sum((*arriving)->present()) == before);
    REQUIRE_FALSE(*send(**arriving, model, parts));
    CHECK_FALSE(cache->find(model.announced.identity));
    before = sum((*arriving)->present());
  }
  const auto cache = open_cache(folder.path());
  CHECK(before > 400'000);
  CHECK(*send(**cache->begin(model.announced), model));
  const auto found = cache->find(model.announced.identity);
  REQUIRE(found);
  CHECK(*models::checkpoint_identity(*found) == model.announced.identity);
  CHECK(read_file(*found + "/model.safetensors") == model.contents.back());
  CHECK(cache->kept_bytes() == model.bytes());
}

TEST_CASE("a model of which everything has arrived before it was stored needs no more parts") {
  const TemporaryFolder folder;
  const Model model;
  const auto cache = open_cache(folder.path());
  for (std::size_t i = 0; i < model.contents.size(); ++i)
    folder.write("arriving/" + model.announced.identity + "/" + model.announced.files[i].name +
                     "." + model.announced.files[i].sha256,
                 model.contents[i]);
  CHECK(*(*cache->begin(model.announced))->settle());
  CHECK(cache->find(model.announced.identity));
}

TEST_CASE("what was damaged on its way or on the disk is refused, and sent once more") {
  const TemporaryFolder folder;
  Model model;
  const auto cache = open_cache(folder.path());
  const std::string weights = model.contents.back();
  model.contents.back()[900'000] ^= 1;
  {
    const auto arriving = cache->begin(model.announced);
    const auto sent = send(**arriving, model);
    REQUIRE_FALSE(sent);
    CHECK(sent.error().code == ErrorCode::corrupt);
    CHECK(sent.error().message.find("another hash") != std::string::npos);
  }
  model.contents.back() = weights;
  REQUIRE_FALSE(*send(**cache->begin(model.announced), model, 10));
  // A bit of what is there turns over.
  const auto& file = model.announced.files.back();
  const std::string partial =
      "arriving/" + model.announced.identity + "/" + file.name + "." + file.sha256;
  std::string there = read_file(folder.file(partial));
  there[1000] ^= 1;
  folder.write(partial, there);
  REQUIRE_FALSE(send(**cache->begin(model.announced), model));
  CHECK(*send(**cache->begin(model.announced), model));
  CHECK(read_file(*cache->find(model.announced.identity) + "/model.safetensors") == weights);
}

TEST_CASE("files that are another model's than was said are thrown away") {
  const TemporaryFolder folder;
  Model model;
  const auto cache = open_cache(folder.path());
  model.announced.identity = Model::hash("another");
  const auto sent = send(**cache->begin(model.announced), model);
  REQUIRE_FALSE(sent);
  CHECK(sent.error().code == ErrorCode::corrupt);
  CHECK_FALSE(cache->find(model.announced.identity));
  CHECK(cache->kept_bytes() == 0);
}

TEST_CASE("what a model's files cannot be is refused") {
  const TemporaryFolder folder;
  const auto cache = open_cache(folder.path());
  const auto refused = [&](auto change) {
    Model model;
    change(model.announced);
    CHECK_THROWS_AS(static_cast<void>(cache->begin(model.announced)), std::invalid_argument);
  };
  refused([](auto& m) { m.identity = "../../etc"; });
  refused([](auto& m) { m.identity = std::string(64, '/'); });
  for (const char* name : {"../config.json", "/etc/passwd", "", ".", "..", ".safetensors",
                           "a/b.safetensors", "model.bin", "lock"})
    refused([&](auto& m) { m.files.back().name = name; });
  refused([](auto& m) { m.files.back().name = m.files.front().name; });
  refused([](auto& m) { m.files.back().sha256 = "../" + m.files.back().sha256.substr(3); });
  refused([](auto& m) { m.files.back().size = 0; });
  refused([](auto& m) { m.files.back().size = ~std::uint64_t(0); });
  refused([](auto& m) { m.files.clear(); });
  refused([](auto& m) { m.files.resize(limits::model_files_max + 1, m.files.front()); });
  CHECK(cache->kept_bytes() == 0);
}

TEST_CASE("parts that do not go on, or go on too long, are refused") {
  const TemporaryFolder folder;
  const Model model;
  const auto cache = open_cache(folder.path());
  const auto arriving = cache->begin(model.announced);
  REQUIRE(arriving);
  const auto refused = [&](const messages::ModelPart& part) {
    CHECK_THROWS_AS(static_cast<void>((*arriving)->take(part)), std::invalid_argument);
  };
  refused({1, 0, "x"});
  refused({7, 0, "x"});
  refused({0, 1, "x"});
  refused({0, 0, ""});
  refused({0, 0, model.contents[0] + "x"});
  refused({0, 0, std::string(limits::model_part_bytes + 1, 'x')});
  CHECK(*send(**arriving, model));
  refused({0, 0, "x"});
  refused({std::uint32_t(model.contents.size()), 0, "x"});
}

TEST_CASE("one engine at a time sends a model") {
  const TemporaryFolder folder;
  const Model model;
  const auto first = open_cache(folder.path())->begin(model.announced);
  REQUIRE(first);
  const auto second = open_cache(folder.path())->begin(model.announced); // another node's
  REQUIRE_FALSE(second);
  CHECK(second.error().code == ErrorCode::overloaded);
}

TEST_CASE("a node keeps no more than it may, and what nobody sends any more goes first") {
  const TemporaryFolder folder;
  const Model model;
  const auto tight = open_cache(folder.path(), model.bytes() - 1);
  const auto refused = tight->begin(model.announced);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::out_of_memory);
  CHECK(says(refused.error(), "--accept-models"));

  Model other;
  other.announced.identity = Model::hash("another");
  const auto cache = open_cache(folder.path(), model.bytes() + 1000);
  REQUIRE_FALSE(*send(**cache->begin(other.announced), other, 5));
  CHECK(*send(**cache->begin(model.announced), model));
  CHECK(cache->kept_bytes() == model.bytes());
}

TEST_CASE("models that arrive at a time are admitted as far as there is room for all of them") {
  const TemporaryFolder folder;
  const Model model;
  Model other;
  other.announced.identity = Model::hash("another");
  const std::uint64_t most = model.bytes() * 3 / 2;
  const auto cache = open_cache(folder.path(), most);
  const auto other_node = open_cache(folder.path(), most);
  const auto refused = [&] {
    const auto second = other_node->begin(other.announced);
    REQUIRE_FALSE(second);
    CHECK(second.error().code == ErrorCode::out_of_memory);
    CHECK(second.error().message.find("from other engines") != std::string::npos);
  };
  auto first = cache->begin(model.announced);
  REQUIRE(first);
  refused(); // nothing has come yet
  REQUIRE_FALSE(*send(**first, model, 5));
  refused();
  *first = nullptr; // cut off: what it was promised is free
  REQUIRE_FALSE(*send(**other_node->begin(other.announced), other, 5));
  CHECK(*send(**cache->begin(model.announced), model));
  CHECK_FALSE(other_node->begin(other.announced)); // it is kept now

  const TemporaryFolder roomy;
  const auto both = open_cache(roomy.path(), 2 * model.bytes());
  const auto one = both->begin(model.announced);
  const auto two = both->begin(other.announced);
  CHECK(bool(one));
  CHECK(bool(two));
}

TEST_CASE("what is left of another announcement of a model goes, and makes no room") {
  const TemporaryFolder folder;
  const Model model;
  const auto cache = open_cache(folder.path(), 2 * model.bytes());
  REQUIRE_FALSE(*send(**cache->begin(model.announced), model, 10));
  CHECK(cache->kept_bytes() > 0);
  Model changed;
  for (auto& file : changed.announced.files)
    file.sha256 = Model::hash(file.sha256);
  const auto again = cache->begin(changed.announced);
  REQUIRE(again);
  CHECK(sum((*again)->present()) == 0);
  CHECK(cache->kept_bytes() == 0);
}

TEST_CASE("a full disk is said, and what had arrived does not stay on it") {
  const Model model;
  const SmallDisk small(8 << 20);
  const SmallDisk disk(limits::disk_left_bytes + (8 << 20));
  if (!small.there || !disk.there) {
    MESSAGE("1 test skipped, since this user may mount no disk");
    return;
  }
  const auto refused = open_cache(small.folder.path())->begin(model.announced);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("disk has") != std::string::npos);

  const auto cache = open_cache(disk.folder.path());
  const auto arriving = cache->begin(model.announced);
  REQUIRE(arriving);
  REQUIRE_FALSE(*send(**arriving, model, 3));
  const std::string others = disk.folder.file("others");
  { // somebody else takes the rest
    std::ofstream file(others, std::ios::binary);
    const std::string block(1 << 20, 'x');
    while (file.write(block.data(), std::streamsize(block.size())).flush()) {
    }
  }
  const auto full = send(**arriving, model);
  REQUIRE_FALSE(full);
  CHECK(full.error().code == ErrorCode::out_of_memory);
  CHECK(full.error().message.find("full") != std::string::npos);
  CHECK(cache->kept_bytes() - std::filesystem::file_size(others) == 0);
  std::filesystem::remove(others);
  CHECK(*send(**cache->begin(model.announced), model));
}
