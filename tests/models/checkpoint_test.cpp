#include "models/checkpoint/tensor_files.hpp"
#include "models/model.hpp"
#include "tests/models/support.hpp"
#include "tests/models/weights_file.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cstring>
#include <doctest/doctest.h>
#include <random>
#include <sys/stat.h>

using namespace paceline;
using namespace paceline::models;
namespace json = boost::json;
using test::file_of;
using test::WeightsFile;

namespace {

const std::string two_tensors = R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                                R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]}})";

Result<std::vector<TensorEntry>> parse(const std::string& file) {
  return parse_safetensors("w.safetensors", std::as_bytes(std::span(file)));
}

struct Damage {
  std::string header;
  const char* names; ///< What the message must name.
};

Result<std::shared_ptr<const Model>> load_with(const std::string& weights) {
  const test::TemporaryFolder folder;
  test::link_all(test::demo("draft"), folder);
  folder.write("model.safetensors", weights);
  return test::load(folder.path(), test::device(), {});
}

void check_refused(const Result<std::shared_ptr<const Model>>& model, const std::string& names) {
  REQUIRE(!model);
  CHECK_MESSAGE(model.error().message.find(names) != std::string::npos, model.error().text());
  CHECK(model.error().message.find("model.safetensors") != std::string::npos);
  CHECK(!model.error().hint.empty());
}

} // namespace

TEST_CASE("a safetensors file gives its tensors") {
  const auto entries = parse(file_of(two_tensors + "   ", std::string(32, '\x01')));
  REQUIRE_MESSAGE(entries, entries.error().text());
  REQUIRE(entries->size() == 2);
  CHECK((*entries)[0].name == "a");
  CHECK((*entries)[0].type == StoredType::f32);
  CHECK((*entries)[0].shape == std::vector<std::int64_t>{2, 3});
  CHECK((*entries)[0].bytes.size() == 24);
  CHECK((*entries)[1].bytes.size() == 8);
  CHECK(parse(file_of(R"({"__metadata__":{"format":"pt","x":"y"}})", ""))->empty());
  CHECK(parse(file_of(R"({"s":{"dtype":"F16","shape":[],"data_offsets":[0,2]}})", "ab"))->size() ==
        1);
  CHECK(parse(file_of(R"({"e":{"dtype":"F16","shape":[0,5],"data_offsets":[0,0]}})", "")));
}

TEST_CASE("a damaged safetensors header is an error that names file and tensor") {
  const std::string big = "18446744073709551615";
  const Damage table[] = {
      {"", "not JSON"},
      {"[]", "list"},
      {"7", "number"},
      {"{", "not JSON"},
      {"{} x", "after its JSON"},
      {"{}{}", "after its JSON"},
      {R"({"a":1})", "tensor a"},
      {R"({"a":"x"})", "tensor a"},
      {R"({"a":null})", "tensor a"},
      {R"({"a":[1]})", "list"},
      {R"({"a":{}})", "tensor a"},
      {R"({"a":{"dtype":"F32","shape":[2,3]}})", "tensor a"},
      {R"({"a":{"dtype":"F32","data_offsets":[0,24]}})", "tensor a"},
      {R"({"a":{"shape":[2,3],"data_offsets":[0,24]}})", "tensor a"},
      {R"({"a":{"dtype":"F32","dtype":"F16","shape":[2,3],"data_offsets":[0,24]}})", "twice"},
      {R"({"a":{"dtype":"F32","shape":[2],"shape":[3],"data_offsets":[0,24]}})", "twice"},
      {R"({"a":{"dtype":"F32","shape":{"x":2},"data_offsets":[0,24]}})", "tensor a"},
      {R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,24]}})", "list"},
      {R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24],"x":[1]}})", "unknown field x"},
      {R"({"a":{"dtype":"F32","shape":[2,-3],"data_offsets":[0,24]}})", "tensor a"},
      {R"({"a":{"dtype":"F32","shape":[2,3.5],"data_offsets":[0,24]}})", "tensor a"},
      {R"({"a":{"dtype":"F32","shape":[2,true],"data_offsets":[0,24]}})", "tensor a"},
      {R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", "tensor a"},
      {R"({"a":{"dtype":"F64","shape":[4],"data_offsets":[0,32]}})", "F64"},
      {R"({"a":{"dtype":"f32","shape":[8],"data_offsets":[0,32]}})", "f32"},
      {R"({"a":{"dtype":"F32","shape":[9],"data_offsets":[0,36]}})", "tensor a"},
      {R"({"a":{"dtype":"F32","shape":[7],"data_offsets":[0,32]}})", "tensor a"},
      {R"({"a":{"dtype":"F32","shape":[8],"data_offsets":[32,0]}})", "tensor a"},
      {R"({"a":{"dtype":"F32","shape":[8],"data_offsets":[0,32,32]}})", "tensor a"},
      {R"({"a":{"dtype":"F32","shape":[8],"data_offsets":[-1,31]}})", "tensor a"},
      {R"({"a":{"dtype":"F32","shape":[8],"data_offsets":[0,)" + big + "]}}", "tensor a"},
      {R"({"a":{"dtype":"F32","shape":[)" + big + R"(],"data_offsets":[0,32]}})", "tensor a"},
      {R"({"a":{"dtype":"F32","shape":[2147483647,2147483647,4],"data_offsets":[0,32]}})",
       "tensor a"},
      {R"({"a":{"dtype":"F32","shape":[)" + big + big + R"(],"data_offsets":[0,32]}})", "tensor a"},
      {R"({"a":{"dtype":"F32","shape":[1073741824,1073741824,4],"data_offsets":[0,0]},)"
       R"("b":{"dtype":"F32","shape":[8],"data_offsets":[0,32]}})",
       "tensor a"}, // 2^64 bytes
      // Two tensors share bytes, leave some out, or have one name.
      {R"({"a":{"dtype":"F32","shape":[5],"data_offsets":[0,20]},)"
       R"("b":{"dtype":"F32","shape":[4],"data_offsets":[16,32]}})",
       "tensor b overlaps"},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},)"
       R"("b":{"dtype":"F32","shape":[4],"data_offsets":[16,32]}})",
       "tensor b follows"},
      {R"({"a":{"dtype":"F32","shape":[7],"data_offsets":[0,28]}})", "4 bytes at the end"},
      {R"({"a":{"dtype":"F32","shape":[7],"data_offsets":[4,32]}})", "tensor a follows"},
      {R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},)"
       R"("a":{"dtype":"F32","shape":[4],"data_offsets":[16,32]}})",
       "tensor a stands twice"},
      {R"({"x\ny":{"dtype":"F32","shape":[7],"data_offsets":[0,32]}})", "tensor x\\x0ay"},
      {"{\"\xFF\":{}}", "not JSON"},
      {R"({"__metadata__":{"x":1}})", "__metadata__"},
  };
  for (const Damage& damage : table) {
    CAPTURE(damage.header);
    const auto entries = parse(file_of(damage.header, std::string(32, '\x01')));
    REQUIRE(!entries);
    const std::string text = entries.error().text();
    CHECK_MESSAGE(text.find(damage.names) != std::string::npos, text);
    CHECK(text.starts_with("w.safetensors: "));
    CHECK(text.find('\n') == std::string::npos);
    CHECK(!entries.error().hint.empty());
  }
}

TEST_CASE("a safetensors file with a wrong header size is an error") {
  const std::string whole = file_of(two_tensors, std::string(32, '\x01'));
  REQUIRE(parse(whole));
  for (std::size_t size = 0; size < whole.size(); ++size)
    CHECK(!parse(whole.substr(0, size)));
  CHECK(!parse(whole + "x"));
  for (const std::uint64_t size :
       {std::uint64_t(0), std::uint64_t(1), std::uint64_t(two_tensors.size() + 33),
        std::uint64_t(100) << 20, std::uint64_t(1) << 40, ~std::uint64_t(0)}) {
    std::string damaged = whole;
    std::memcpy(damaged.data(), &size, 8);
    CHECK(!parse(damaged));
    if (size > two_tensors.size() + 32)
      CHECK(parse(damaged).error().message.find("a header of") != std::string::npos);
  }
}

TEST_CASE("a header with any byte changed is read or refused, never more") {
  const std::string whole = file_of(two_tensors, std::string(32, '\x01'));
  std::mt19937 random(9);
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string damaged = whole;
    for (unsigned i = 0; i <= random() % 3; ++i)
      damaged[random() % (damaged.size() - 32)] =
          char(random() % 2 ? random() : "{}[]\",:0"[random() % 8]);
    const auto entries = parse(damaged);
    refused += !entries;
    std::size_t bytes = 0;
    for (std::size_t i = 0; entries && i < entries->size(); ++i)
      bytes += (*entries)[i].bytes.size();
    CHECK((!entries || bytes <= damaged.size()));
  }
  CHECK(refused > 10'000);
}

TEST_CASE("a checkpoint hands out what it holds, in the shape that is asked for") {
  const test::TemporaryFolder folder;
  std::string data(32, '\0');
  const float values[] = {1, 2, 3, 4, 5, 6};
  std::memcpy(data.data(), values, 24);
  const std::uint16_t halves[] = {0x3F80, 0xC000, 0x0000, 0x4040}; // 1, -2, 0, 3
  std::memcpy(data.data() + 24, halves, 8);
  // A header whose size is odd leaves the tensors misaligned.
  for (const std::string padding : {"", " ", "  ", "   "}) {
    folder.write("model.safetensors", file_of(two_tensors + padding, data));
    auto checkpoint = TensorFiles::open(folder.path());
    REQUIRE(checkpoint);
    const auto matrix = checkpoint->matrix("a", 2, 3);
    REQUIRE(matrix);
    CHECK(std::uintptr_t(matrix->data) % alignof(float) == 0);
    CHECK(std::equal(values, values + 6, static_cast<const float*>(matrix->data)));
    CHECK(checkpoint->vector("b", 4) == std::vector<float>{1, -2, 0, 3});
    CHECK(checkpoint->parameters() == 10);
    CHECK(checkpoint->check_all_taken());
  }
  auto checkpoint = TensorFiles::open(folder.path());
  CHECK(checkpoint->matrix("a", 3, 2).error().message.find("tensor a is [2, 3]") !=
        std::string::npos);
  CHECK(checkpoint->matrix("c", 3, 2).error().message.find("tensor c is missing") !=
        std::string::npos);
  CHECK(checkpoint->check_all_taken().error().message.find("unexpected tensor a") !=
        std::string::npos);
}

TEST_CASE("weights that do not fit config.json are refused by name") {
  const WeightsFile whole(test::demo("draft"));
  REQUIRE(load_with(whole.bytes()));

  WeightsFile missing = whole;
  const json::value norm = missing.header.at("model.norm.weight");
  missing.header.erase("model.norm.weight");
  missing.header["model.norm.weights"] = norm;
  const auto model = load_with(missing.bytes());
  REQUIRE(!model);
  CHECK(model.error().message.find("model.norm.weight is missing") != std::string::npos);

  WeightsFile unexpected = whole;
  unexpected.header["model.layers.0.self_attn.q_proj.bias"] =
      json::object{{"dtype", "BF16"},
                   {"shape", {1}},
                   {"data_offsets", {unexpected.data.size(), unexpected.data.size() + 2}}};
  unexpected.data += "xx";
  check_refused(load_with(unexpected.bytes()), "q_proj.bias");

  WeightsFile turned = whole;
  json::value& shape = turned.header["model.layers.1.mlp.down_proj.weight"].as_object()["shape"];
  shape = json::array{shape.as_array()[1], shape.as_array()[0]};
  check_refused(load_with(turned.bytes()), "model.layers.1.mlp.down_proj.weight is [384, 128]");

  check_refused(load_with(whole.bytes().substr(0, 1'000'000)), "tensor model.");
  check_refused(load_with(""), "too few");
}

TEST_CASE("a tied head that is stored twice, and rotary frequencies, are ignored") {
  WeightsFile file(test::demo("draft"));
  const std::size_t end = file.data.size();
  const std::size_t head = std::size_t(4096) * 128 * 2;
  file.header["lm_head.weight"] =
      json::object{{"dtype", "BF16"}, {"shape", {4096, 128}}, {"data_offsets", {end, end + head}}};
  file.header["model.layers.0.self_attn.rotary_emb.inv_freq"] = json::object{
      {"dtype", "F32"}, {"shape", {16}}, {"data_offsets", {end + head, end + head + 64}}};
  const json::value& offsets =
      file.header["model.embed_tokens.weight"].as_object().at("data_offsets");
  file.data += file.data.substr(offsets.at(0).to_number<std::size_t>(), head);
  file.data.resize(end + head + 64);
  const auto model = load_with(file.bytes());
  REQUIRE_MESSAGE(model, model.error().text());
  CHECK((*model)->info().parameters == 918'144);
  ++file.data[end]; // a head of its own
  const auto untied = load_with(file.bytes());
  REQUIRE_MESSAGE(untied, untied.error().text());
  CHECK((*untied)->info().parameters == 918'144 + head / 2);
}

TEST_CASE("an index that does not fit its shards is refused by name") {
  const test::TemporaryFolder folder;
  const auto a = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const auto b = R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  folder.write("1.safetensors", file_of(a, "1234"));
  folder.write("2.safetensors", file_of(b, "1234"));
  folder.write("3.safetensors", file_of(a, "1234"));
  const auto open = [&](const std::string& map) {
    folder.write("model.safetensors.index.json", R"({"metadata":{},"weight_map":)" + map + "}");
    auto checkpoint = TensorFiles::open(folder.path());
    return checkpoint ? "" : checkpoint.error().text();
  };
  CHECK(open(R"({"a":"1.safetensors","b":"2.safetensors"})") == "");
  for (const auto& [map, names] : {
           std::pair{"{}", "weight_map"},
           {"[]", "weight_map"},
           {R"({"a":1})", "tensor a"},
           {R"({"a":"1.bin"})", "tensor a"},
           {R"({"a":"../1.safetensors"})", "tensor a"},
           {R"({"a":"/1.safetensors"})", "tensor a"},
           {R"({"a":"4.safetensors"})", "4.safetensors"},
           {R"({"a":"1.safetensors","b":"1.safetensors"})", "tensor b is not in 1.safetensors"},
           {R"({"a":"1.safetensors","b":"2.safetensors","c":"2.safetensors"})", "tensor c"},
           {R"({"a":"2.safetensors","b":"1.safetensors"})", "tensor a is not in 2.safetensors"},
           {R"({"a":"1.safetensors","b":"3.safetensors"})", "tensor a stands in"},
       }) {
    const std::string error = open(map);
    CAPTURE(error);
    CHECK(error.find(names) != std::string::npos);
  }
  folder.write("2.safetensors", file_of(a, "1234").substr(0, 40));
  CHECK(open(R"({"a":"1.safetensors","b":"2.safetensors"})").find("2.safetensors") !=
        std::string::npos);
  folder.write("2.safetensors", file_of(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                        R"("c":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                                        "12345678"));
  CHECK(open(R"({"a":"1.safetensors","b":"2.safetensors"})").find("does not name") !=
        std::string::npos);
}

TEST_CASE("files that are absent or folders are errors that say so") {
  const test::TemporaryFolder folder;
  const auto load = [&] { return test::load(folder.path(), test::device(), {}); };
  CHECK(load().error().code == ErrorCode::not_found);
  CHECK(load().error().message.find("config.json") != std::string::npos);
  folder.write("config.json", test::read_file(test::demo("draft") + "/config.json"));
  CHECK(load().error().code == ErrorCode::not_found);
  CHECK(load().error().message.find("model.safetensors") != std::string::npos);
  folder.write("model.safetensors.index.json", "{}");
  CHECK(load().error().message.find("weight_map") != std::string::npos);
  const std::string weights = folder.path() + "/model.safetensors";
  REQUIRE(::mkfifo(weights.c_str(), 0600) == 0);
  CHECK(load().error().code == ErrorCode::invalid_argument);
  std::filesystem::remove(weights);
  folder.write("model.safetensors/x", "");
  CHECK(load().error().code == ErrorCode::invalid_argument);
}

TEST_CASE("a part of a mapped file is read from the file, also once that has become shorter") {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("x", "0123456789");
  auto opened = MappedFile::open(path).value();
  const MappedFile file = std::move(opened);
  const auto read = [&](int first, std::size_t count) {
    std::string to(count, '\0');
    return file.read(file.bytes().data() + first, std::as_writable_bytes(std::span(to))).map([&] {
      return to;
    });
  };
  CHECK(read(3, 4).value() == "3456");
  CHECK(read(0, 10).value() == "0123456789");
  std::filesystem::resize_file(path, 5);
  CHECK(read(3, 2).value() == "34");
  const auto torn = read(3, 4);
  REQUIRE(!torn);
  CHECK(torn.error().code == ErrorCode::unavailable);
  CHECK(torn.error().message.find("shorter") != std::string::npos);
  CHECK(torn.error().message.find(path) != std::string::npos);
}
