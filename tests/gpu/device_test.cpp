#include "base/bf16.hpp"
#include "gpu/cpu/weight.hpp"
#include "gpu/device.hpp"
#include "gpu/kv_pool.hpp"
#include "gpu/limits.hpp"
#include "tests/gpu/gguf_weight.hpp"
#include "tests/gpu/support.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <thread>

using namespace paceline;
using namespace paceline::gpu;

namespace {

DeviceOptions options(int threads = 1) {
  return {threads, std::make_shared<gpu::testing::RealTime>(), nullptr};
}

std::shared_ptr<Device> cpu_device() {
  return open_device("cpu", options()).value();
}

} // namespace

TEST_CASE("a device without fast products says so, by its name") {
  for (const char* name : {"cpu:0", "sim:1ms"}) {
    const auto refused = open_device(name, options()).value()->prepare_fast_products({}, 512);
    REQUIRE(!refused);
    CHECK(refused.error().code == ErrorCode::unsupported);
    CHECK(refused.error().message.find(name) != std::string::npos);
    CHECK(refused.error().hint.find("EngineOptions::prefill") != std::string::npos);
  }
}

TEST_CASE("device names are parsed into kind, cores, index and profile") {
  CHECK(parse_device("cpu")->kind == DeviceKind::cpu);
  CHECK(parse_device("cpu")->cores.empty());
  CHECK(parse_device("cpu:0-3")->cores == std::vector{0, 1, 2, 3});
  CHECK(parse_device("cpu:4,0-1,1")->cores == std::vector{0, 1, 4});
  CHECK(parse_device("cuda")->index == 0);
  CHECK(parse_device("cuda:7")->index == 7);
  CHECK(!parse_device("cuda:7")->multiprocessors);
  CHECK(parse_device("cuda:1/8-23")->index == 1);
  CHECK(to_string(parse_device("cuda:1/8-23")->multiprocessors.value()) == "8-23");
  CHECK(to_string(parse_device("cuda:1/24-")->multiprocessors.value()) == "24-");
  CHECK(parse_device("sim:chinchilla-70b")->profile == "chinchilla-70b");
  CHECK(parse_device("sim:14.1ms+0.2ms/row")->kind == DeviceKind::sim);
}

TEST_CASE("a device name that means nothing is an invalid argument that quotes it") {
  for (const char* name :
       {"",         "cpu:",        "cpu:x",         "cpu:3-1",     "cpu:0-",
        "cpu:0,",   "cpu:-1",      "cpu:0 ",        "cpu:0-4096",  "cpu:99999999999999999999",
        "cuda:",    "cuda:x",      "cuda:-1",       "cuda:1x",     "sim",
        "cuda:0/",  "cuda:0/8",    "cuda:0/8-7",    "cuda:0/-8",   "cuda:0/0-7,8",
        "cuda/0-7", "cuda:0/0-7x", "cuda:0/0--7",   "cuda:0/x-7",  "cuda:0/0-99999999999",
        "sim:",     "sim:cray-1",  "sim:5",         "sim:5parsec", "sim:-1ms",
        "sim:1ms+", "sim:1ms+1ms", "sim:1ms+1/row", "sim:1ms/row", "sim:nanms",
        "sim:1e9s", "gpu",         "CPU",           ":",           "cpu0"}) {
    CAPTURE(name);
    const auto parsed = parse_device(name);
    REQUIRE(!parsed);
    CHECK(parsed.error().code == ErrorCode::invalid_argument);
    CHECK(parsed.error().message.find(name) != std::string::npos);
    CHECK(!parsed.error().hint.empty());
    CHECK(parsed.error().text().find('\n') == std::string::npos);
  }
}

TEST_CASE("opening what this machine or build does not have is an error that says so") {
  const auto cuda = open_device("cuda:99", options()); // With CUDA or without, there is none.
  REQUIRE(!cuda);
  CHECK((cuda.error().code == ErrorCode::unsupported || cuda.error().code == ErrorCode::not_found));
  CHECK(cuda.error().message.find("cuda:99") != std::string::npos);
  CHECK(!cuda.error().hint.empty());
  const auto core = open_device("cpu:4095", options());
  REQUIRE(!core);
  CHECK(core.error().code == ErrorCode::not_found);
  CHECK(core.error().message.find("4095") != std::string::npos);
  for (int threads : {-1, limits::lane_threads_max + 1}) {
    const auto team = open_device("cpu", options(threads));
    REQUIRE(!team);
    CHECK(team.error().code == ErrorCode::invalid_argument);
  }
}

TEST_CASE("PACELINE_CPU chooses a kernel family and refuses names it does not know") {
  for (const char* name : {"quantum", "sse9"}) {
    setenv("PACELINE_CPU", name, 1);
    const auto refused = open_device("cpu", options());
    REQUIRE(!refused);
    CHECK(refused.error().message.find(name) != std::string::npos);
    CHECK(refused.error().hint.find("scalar") != std::string::npos);
  }
  setenv("PACELINE_CPU", "scalar", 1);
  CHECK(cpu_device()->kernel() == "scalar");
  unsetenv("PACELINE_CPU");
  CHECK(cpu_device()->kernel() != "scalar");
}

#if defined(__linux__)
TEST_CASE("tiles are taken only where the system says that the processor has them") {
  std::ifstream file("/proc/cpuinfo");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto has = [&](const char* flag) { return text.find(flag) != std::string::npos; };
  if (has(" amx_tile") && has(" amx_bf16") && has(" avx512_bf16"))
    return; // Whether the process may use them is another matter.
  setenv("PACELINE_CPU", "amx", 1);
  const auto refused = open_device("cpu", options());
  unsetenv("PACELINE_CPU");
  REQUIRE(!refused);
  CHECK(refused.error().message == "PACELINE_CPU=amx names no kernel family of this machine");
  CHECK(refused.error().hint.find("amx") == std::string::npos);
  CHECK(cpu_device()->kernel() != "amx");
}
#endif

TEST_CASE("a device's name lists its cores, and a simulated one names its profile") {
  CHECK(cpu_device()->name().starts_with("cpu:0"));
  const auto sim = open_device("sim:chinchilla-4b", options()).value();
  CHECK(sim->name() == "sim:chinchilla-4b");
  CHECK(sim->kernel() == "chinchilla-4b");
}

TEST_CASE("buffers are zeroed and aligned, small and large") {
  const auto device = cpu_device();
  for (std::size_t bytes :
       {std::size_t(0), std::size_t(5), std::size_t(4096), std::size_t(3) << 20}) {
    const auto buffer = device->allocate(bytes).value();
    CHECK(buffer->size() == bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer->data()) % 64 == 0);
    bool zero = true;
    for (std::size_t i = 0; i < bytes; ++i)
      zero = zero && buffer->data()[i] == std::byte(0);
    CHECK(zero);
  }
}

TEST_CASE("memory that the machine does not have is an error, not a signal") {
  const auto device = cpu_device();
  const auto memory = device->memory();
  CHECK(memory.available > 0);
  CHECK(memory.available <= memory.total);
  const auto buffer = device->allocate(memory.total * 2);
  REQUIRE(!buffer);
  CHECK(buffer.error().code == ErrorCode::out_of_memory);
}

TEST_CASE("matrices of unlike columns or formats are not packed together") {
  const auto device = cpu_device();
  const std::vector<float> data(64);
  const HostMatrix a{DType::f32, data.data(), 2, 16};
  CHECK(!device->pack(std::vector{a, HostMatrix{DType::f32, data.data(), 2, 8}}));
  CHECK(!device->pack(std::vector{a, HostMatrix{DType::bf16, data.data(), 2, 16}}));
  CHECK(!device->pack({}));
  const auto weight = device->pack(std::vector{a, a}).value();
  CHECK(weight->outputs() == 4);
  CHECK(weight->inputs() == 16);
  CHECK(weight->format() == WeightFormat::f32);
}

/// A file that counts what is read, and fails from some byte on.
class CountingFile final : public HostFile {
public:
  Result<void> read(const std::byte* from, std::span<std::byte> to) const override {
    all += to.size();
    for (std::size_t before = most; to.size() > before;)
      most.compare_exchange_weak(before, to.size());
    if (from + to.size() > end)
      return fail(ErrorCode::unavailable, "the file ends early");
    std::copy_n(from, to.size(), to.begin());
    return {};
  }
  mutable std::atomic<std::size_t> all = 0;
  mutable std::atomic<std::size_t> most = 0;
  const std::byte* end = nullptr;
};

TEST_CASE("matrices of a file are read once, a part of a large one at a time") {
  constexpr int cols = 1024;
  std::vector<base::bf16> data(std::size_t(4096) * cols);
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i] = base::to_bf16(float(i % 251) - 125);
  const auto bytes = std::as_bytes(std::span(data));
  CountingFile file;
  file.end = bytes.data() + bytes.size();
  HostMatrix matrix{DType::bf16, data.data(), 4096, cols};
  HostMatrix few = matrix;
  few.rows = 7;
  const auto device = cpu_device();
  for (const bool quantized : {false, true}) {
    if (quantized)
      few.quantization = matrix.quantization = Quantization{WeightFormat::mxfp6};
    few.file = matrix.file = nullptr;
    const auto in_memory = device->pack(std::vector{few, matrix, few}).value();
    few.file = matrix.file = &file;
    file.all = 0;
    const auto read = device->pack(std::vector{few, matrix, few}).value();
    CHECK(file.all == std::size_t(matrix.rows + 2 * few.rows) * cols * sizeof(base::bf16));
    CHECK(file.most <= std::size_t(1) << 20);
    std::vector<float> own(cols), expected(cols);
    for (int output = 0; output < read->outputs(); ++output) {
      dynamic_cast<const cpu::PackedWeight&>(*read).read_output(output, own.data());
      dynamic_cast<const cpu::PackedWeight&>(*in_memory).read_output(output, expected.data());
      REQUIRE(own == expected);
    }
  }
  file.end -= 1;
  const auto torn = device->pack(std::vector{few, matrix});
  REQUIRE(!torn);
  CHECK(torn.error().message == "the file ends early");
}

TEST_CASE("outputs of GGUF blocks are the numbers of their parts, also where a tile has several") {
  gpu::testing::Random random(7);
  for (const ScaledCodes& how : scaled_formats) {
    CAPTURE(to_string(how.format));
    const gpu::testing::BlockWeight few(how.format, 7, 512, random);
    const gpu::testing::BlockWeight many(how.format, 41, 512, random);
    const auto weight =
        cpu_device()->pack(std::vector{few.matrix, many.matrix, few.matrix}).value();
    std::vector<float> values(512);
    int output = 0;
    for (const auto* part : {&few, &many, &few})
      for (int row = 0; row < part->f32.rows; ++row) {
        dynamic_cast<const cpu::PackedWeight&>(*weight).read_output(output++, values.data());
        REQUIRE(std::ranges::equal(
            values, std::span(part->f32.values).subspan(std::size_t(row) * 512, 512)));
      }
  }
}

TEST_CASE("the pool's ledger counts every page once, whoever holds it") {
  const auto device = cpu_device();
  const auto pool = KvPool::create(*device, {16, 128}, 3).value();
  CHECK(pool->ledger().free == 3);
  PageRef a = pool->take();
  PageRef b = pool->take();
  const PageRef c = pool->take();
  REQUIRE(c);
  CHECK(pool->take() == nullptr);
  CHECK(pool->ledger().out == 3);
  CHECK(pool->page(1) - pool->page(0) == 16 * 128);

  const PageTableRef table = PageTable::extend(nullptr, 16, {a, b});
  const PageTableRef grown = PageTable::extend(table.get(), 16, {c});
  CHECK(grown->capacity() == 48);
  CHECK(grown->ids == std::vector{a->id, b->id, c->id});
  a.reset();
  CHECK(pool->ledger().out == 3); // Both tables still hold it.
  b.reset();
  CHECK(pool->ledger().free + pool->ledger().out == pool->ledger().total);
}

TEST_CASE("pages come back with their last reference, on any thread, even after the pool's owner") {
  const auto device = cpu_device();
  auto pool = KvPool::create(*device, {16, 128}, 64).value();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([pool] {
      for (int i = 0; i < 1000; ++i) {
        const PageRef page = pool->take();
        const PageRef again = page;
        if (page)
          pool->page(page->id)[0] = std::byte(i);
      }
    });
  for (std::thread& thread : threads)
    thread.join();
  CHECK(pool->ledger().free == 64);
  PageRef last = pool->take();
  std::byte* memory = pool->page(last->id);
  pool.reset();
  memory[0] = std::byte(1); // The reference keeps the memory alive.
  last.reset();
}

TEST_CASE("a cache that does not fit names the option that sizes it") {
  const auto device = cpu_device();
  for (std::size_t pages : {std::size_t(0), std::size_t(1) << 31, std::size_t(1) << 40}) {
    const auto pool = KvPool::create(*device, {16, std::size_t(1) << 20}, pages);
    REQUIRE(!pool);
    CHECK(pool.error().hint.find("EngineOptions::kv_memory_bytes") != std::string::npos);
  }
}
