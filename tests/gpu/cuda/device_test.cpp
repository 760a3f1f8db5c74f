// GPUs found, refused and used up: an emulated machine answers as the runtime's documentation says.
#include "gpu/cuda/survey.hpp"
#include "gpu/device.hpp"
#include "gpu/device_group.hpp"
#include "gpu/mx.hpp"
#include "tests/gpu/company.hpp"
#include "tests/gpu/cuda_emulation/cuda_emulation.hpp"
#include "tests/gpu/gguf_weight.hpp"
#include "tests/gpu/support.hpp"
#include "tests/support/environment.hpp"

#include <algorithm>
#include <doctest/doctest.h>

#include <cstring>
#include <numeric>
#include <utility>

using namespace paceline;
using namespace paceline::gpu;
using gpu::testing::says;

namespace {

DeviceOptions options() {
  return {0, std::make_shared<gpu::testing::RealTime>(), nullptr};
}

/// The machine is as it was when this goes.
struct Machine {
  explicit Machine(const cuda_emulation::Options& what) { cuda_emulation::reset(what); }
  ~Machine() { cuda_emulation::reset({}); }
};

Error refusal(const char* device) {
  const auto opened = open_device(device, options());
  REQUIRE(!opened);
  CHECK(opened.error().text().find('\n') == std::string::npos);
  CHECK(opened.error().text().find(device) != std::string::npos);
  CHECK(!opened.error().hint.empty());
  return opened.error();
}

std::size_t page(std::size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

} // namespace

TEST_CASE("without a driver, with one too old and without a GPU each is said in one line") {
  cuda_emulation::Options machine;
  SUBCASE("no driver") {
    machine.driver_version = 0;
    const Machine emulated(machine);
    CHECK(says(refusal("cuda:0"), "driver is not installed"));
    const auto survey = cuda::survey();
    CHECK(!survey.driver);
    CHECK(survey.toolkit);
    CHECK(survey.gpus.empty());
    REQUIRE(survey.unusable);
    CHECK(says(*survey.unusable, "EngineOptions::devices = cpu"));
  }
  SUBCASE("too old a driver") {
    machine.driver_version = 11080;
    const Machine emulated(machine);
    const Error error = refusal("cuda:0");
    CHECK(says(error, "supports CUDA 11.8"));
    CHECK(says(error, "update the driver"));
    CHECK(cuda::survey().driver->major == 11);
  }
  SUBCASE("no GPU") {
    machine.devices = 0;
    const Machine emulated(machine);
    CHECK(says(refusal("cuda:0"), "finds no GPU"));
  }
}

TEST_CASE("a GPU that is not there is named with those that are") {
  const Machine emulated({.devices = 3});
  CHECK(says(refusal("cuda:99"), "cuda:0 to cuda:2"));
  CHECK(open_device("cuda:2", options()).value()->name() == "cuda:2");
}

TEST_CASE("a GPU that is too old, or that this build has no kernels for, says so") {
  const Machine emulated({.capability_major = 7, .capability_minor = 5});
  CHECK(says(refusal("cuda:0"), "compute capability 7.5"));
  const auto survey = cuda::survey();
  REQUIRE(survey.gpus.size() == 1);
  REQUIRE(survey.gpus[0].unusable);
  CHECK(says(*survey.gpus[0].unusable, "Ampere"));
}

TEST_CASE("a survey says what GPUs have, and how they reach each other") {
  const Machine emulated({.devices = 2, .memory = std::size_t(8) << 30});
  const auto survey = cuda::survey();
  CHECK(!survey.unusable);
  REQUIRE(survey.gpus.size() == 2);
  for (const auto& gpu : survey.gpus) {
    CHECK(!gpu.unusable);
    CHECK(!gpu.model.empty());
    CHECK(gpu.memory_total == std::size_t(8) << 30);
    CHECK(gpu.memory_free <= gpu.memory_total);
    CHECK(gpu.capability.major == 9);
    CHECK(gpu.multiprocessors > 0);
    REQUIRE(gpu.links.size() == 1);
    CHECK(gpu.links[0].to == 1 - gpu.index);
  }
}

TEST_CASE("memory comes zeroed from one pool for each GPU, and is counted") {
  const paceline::testing::Environment as_ever("PACELINE_CUDA_FRESH_MEMORY", "");
  const Machine emulated({});
  const auto device = open_device("cuda:0", options()).value();
  const auto again = open_device("cuda:0", options()).value();
  const std::size_t before = device->memory().available;
  CHECK(before > 0);
  CHECK(before < std::size_t(4) << 30); // Some is left to the driver.
  {
    const auto buffer = device->allocate(100'000).value();
    CHECK(buffer->size() == 100'000);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer->data()) % 256 == 0);
    CHECK(std::all_of(buffer->data(), buffer->data() + 100'000,
                      [](std::byte b) { return b == std::byte(0); }));
    CHECK(again->memory().available == before - 100'000);
    const auto all = device->allocate(before);
    REQUIRE(!all);
    CHECK(all.error().code == ErrorCode::out_of_memory);
    CHECK(says(all.error(), "cuda:0"));
    CHECK(says(all.error(), "MiB left"));
  }
  CHECK(device->memory().available == before);
  CHECK(device->allocate(0).has_value());
}

TEST_CASE("a cache that a GPU has no room for names the option that sizes it") {
  const Machine emulated({});
  const auto device = open_device("cuda:0", options()).value();
  const auto pool = KvPool::create(*device, {16, std::size_t(1) << 20}, 1000);
  REQUIRE(!pool);
  CHECK(pool.error().hint.find("EngineOptions::kv_memory_bytes") != std::string::npos);
}

TEST_CASE("what is uploaded in many pieces arrives whole") {
  const Machine emulated({});
  const auto device = open_device("cuda:0", options()).value();
  std::vector<float> values(std::size_t(11) << 20); // Nearly three pieces.
  std::iota(values.begin(), values.end(), 0.0f);
  const auto buffer = device->upload(values).value();
  REQUIRE(buffer->size() == values.size() * sizeof(float));
  CHECK(std::memcmp(buffer->data(), values.data(), buffer->size()) == 0); // Emulated: the host's.
  const auto empty = device->upload({});
  REQUIRE(empty);
  CHECK((*empty)->size() == 0);
}

TEST_CASE("matrices of unlike columns or formats are not packed together") {
  const Machine emulated({});
  const auto device = open_device("cuda:0", options()).value();
  const std::vector<float> data(64);
  const HostMatrix a{DType::f32, data.data(), 2, 16};
  CHECK(!device->pack(std::vector{a, HostMatrix{DType::f32, data.data(), 2, 8}}));
  CHECK(!device->pack(std::vector{a, HostMatrix{DType::bf16, data.data(), 2, 16}}));
  CHECK(!device->pack({}));
  const auto weight = device->pack(std::vector{a, a}).value();
  CHECK(weight->outputs() == 4);
  CHECK(weight->inputs() == 16);
  CHECK(weight->bytes() >= 4 * 16 * sizeof(float));
}

TEST_CASE("microscaling weights take the memory that their bits do") {
  const Machine emulated({});
  const auto device = open_device("cuda:0", options()).value();
  const std::vector<float> data(32 * 256);
  HostMatrix matrix{DType::f32, data.data(), 32, 256};
  for (const WeightFormat format : mx_formats) {
    CAPTURE(std::string(to_string(format)));
    matrix.quantization = Quantization{format};
    const std::size_t before = device->memory().available;
    const auto weight = device->pack({&matrix, 1}).value();
    CHECK(weight->format() == format);
    CHECK(weight->bytes() ==
          data.size() * std::size_t(element_bits(format) * mx_block + 8) / mx_block / 8);
    CHECK(device->memory().available == before - weight->bytes());
  }
}

namespace {

/// Where rows between two devices lie, and what they take of the GPUs' memory.
struct Between {
  std::shared_ptr<Device> cpu = open_device("cpu", options()).value();
  std::shared_ptr<Device> first = open_device("cuda:0", options()).value();
  std::shared_ptr<Device> same = open_device("cuda:0", options()).value();
  std::shared_ptr<Device> second = open_device("cuda:1", options()).value();

  /// Returns what a row of 4096 bytes takes of the first and of the second GPU.
  std::pair<std::size_t, std::size_t> taken(Device& writer, Device& reader) const {
    const std::size_t before = first->memory().available;
    const std::size_t also = second->memory().available;
    const auto buffer = allocate_between(writer, reader, 4096).value();
    for (const Device* device : {&writer, &reader})
      if (!device->on_host())
        CHECK(cuda_emulation::reaches(device->name() == "cuda:1", buffer->data()));
    return {before - first->memory().available, also - second->memory().available};
  }
};
using Taken = std::pair<std::size_t, std::size_t>;

} // namespace

TEST_CASE("rows between a GPU and the host, or itself, lie where both reach them") {
  const Machine emulated({.devices = 2});
  const Between rows;
  CHECK(rows.taken(*rows.first, *rows.same) == Taken(4096, 0));
  CHECK(rows.taken(*rows.first, *rows.cpu) == Taken(0, 0));
  CHECK(rows.taken(*rows.cpu, *rows.first) == Taken(0, 0));
  CHECK(rows.taken(*rows.cpu, *rows.cpu) == Taken(0, 0));
}

TEST_CASE("rows between two GPUs lie with the reader where the writer reaches them, else pinned") {
  cuda_emulation::Options machine{.devices = 2};
  SUBCASE("linked") {
    const Machine emulated(machine);
    const Between rows;
    CHECK(rows.taken(*rows.first, *rows.second) == Taken(0, 4096));
    CHECK(rows.taken(*rows.second, *rows.first) == Taken(4096, 0));
    const auto other = rows.second->allocate(64).value();
    CHECK(!cuda_emulation::reaches(0, other->data())); // The rest is nobody else's.
    const auto all = allocate_between(*rows.first, *rows.second, rows.second->memory().total);
    REQUIRE(!all); // Rows count like all other memory.
    CHECK(all.error().code == ErrorCode::out_of_memory);
  }
  SUBCASE("not linked") {
    machine.peers = false;
    const Machine emulated(machine);
    const Between rows;
    CHECK(rows.taken(*rows.first, *rows.second) == Taken(0, 0));
  }
  SUBCASE("linked, and access is refused") {
    machine.pool_access = false;
    const Machine emulated(machine);
    const Between rows;
    CHECK(rows.taken(*rows.first, *rows.second) == Taken(0, 0));
    CHECK(rows.taken(*rows.first, *rows.second) == Taken(0, 0)); // Asked again.
  }
}

TEST_CASE("a lost GPU gives errors that say so, and the process lives") {
  const Machine emulated({.devices = 2});
  const auto device = open_device("cuda:0", options()).value();
  auto lane = device->open_lane("target").value();
  const auto buffer = device->allocate(page(1)).value();
  cuda_emulation::lose(0);
  const auto more = device->allocate(1);
  REQUIRE(!more);
  CHECK(more.error().code == ErrorCode::unavailable);
  CHECK(says(more.error(), "cuda:0 was lost"));
  const auto other = device->open_lane("draft");
  REQUIRE(!other);
  CHECK(says(other.error(), "cuda:0 was lost"));
  lane.reset();
  CHECK(open_device("cuda:1", options()).value()->allocate(1).has_value());
}

TEST_CASE("products fit into the shared memory of all GPUs that kernels are built for") {
  const Machine machine({.capability_major = 8, .capability_minor = 6});
  constexpr int counts[] = {1, 9, 33};
  gpu::testing::Random random(41);
  const gpu::testing::Matrix in(33, 2304, random);
  for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::mxfp8, WeightFormat::mxfp4})
    for (const int outputs : {40, 600}) // With 16 chains, and eight.
      gpu::testing::check_company(
          "cuda:0", gpu::testing::HostWeight(format, outputs, 2304, random).matrix, in, counts);
  for (const GgufFormat format : gguf_formats)
    if (weight_format(format))
      gpu::testing::check_company(
          "cuda:0", gpu::testing::BlockWeight(format, 40, 2304, random).matrix, in, counts);
}

TEST_CASE("a part of a GPU is named, kept within it, and refused where it cannot be cut off") {
  const Machine emulated({.devices = 2});
  CHECK(open_device("cuda:0/0-15", options()).value()->name() == "cuda:0/0-15");
  CHECK(open_device("cuda:1/16-", options()).value()->name() == "cuda:1/16-131");
  CHECK(open_device("cuda:0/128-131", options()).value()->name() == "cuda:0/128-131");
  for (const char* badly : {"cuda:0/0-11", "cuda:0/4-", "cuda:0/8-130"}) {
    const Error error = refusal(badly);
    CHECK(error.code == ErrorCode::invalid_argument);
    CHECK(says(error, "132 multiprocessors are divided by 8"));
    CHECK(says(error, "cuda:0/0-15 and cuda:0/16-"));
  }
  CHECK(refusal("cuda:0/132-139").code == ErrorCode::invalid_argument);
  const auto part = open_device("cuda:0/0-15", options()).value();
  const auto rest = open_device("cuda:0/16-", options()).value();
  CHECK(share_hardware(*part, *rest)); // They have one memory.
  const std::array shards{open_device("cuda:1", options()).value(), part};
  const auto group = shards[0]->make_group(shards);
  REQUIRE(!group);
  CHECK(says(group.error(), "cuda:0/0-15"));
  CHECK(says(group.error(), "use cuda:0"));
}

TEST_CASE("a driver that does not divide GPUs says so, and serves them as a whole") {
  const Machine emulated({.driver_version = 12080});
  const Error error = refusal("cuda:0/0-15");
  CHECK(error.code == ErrorCode::unsupported);
  CHECK(says(error, "CUDA 13.0"));
  CHECK(open_device("cuda:0", options()));
}
