// The load generator's plain parts: arrivals, lengths, files, measures, objectives, the search.
#include "apps/console/limits.hpp"
#include "apps/laboratory/load/arrivals.hpp"
#include "apps/laboratory/load/base_url.hpp"
#include "apps/laboratory/load/capacity.hpp"
#include "apps/laboratory/load/event_stream.hpp"
#include "apps/laboratory/load/generator.hpp"
#include "apps/laboratory/load/measures.hpp"
#include "apps/laboratory/load/plan.hpp"
#include "apps/laboratory/load/server_metrics.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <sstream>

using namespace paceline;
using namespace paceline::apps::load;
using paceline::testing::TemporaryFolder;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<double> gaps_of(std::vector<double> arrivals) {
  std::adjacent_difference(arrivals.begin(), arrivals.end(), arrivals.begin());
  return arrivals;
}

/// A target that answers each request after `first`, and then token by token after `between`.
class Scripted final : public Target {
public:
  Scripted(double first, double between) : first_(first), between_(between) {}

  double now() const override { return now_; }
  void send(std::size_t item, const Item& what) override {
    sent.emplace_back(item, now_);
    double at = now_ + first_;
    for (int token = 0; token < what.max_tokens; ++token, at += between_)
      events_.insert({at, {.kind = Event::Kind::tokens, .item = item, .seconds = at}});
    at -= between_;
    Event end{.kind = fails.contains(item) ? Event::Kind::failed : Event::Kind::done,
              .item = item,
              .seconds = at,
              .prompt_tokens = 7,
              .output_tokens = what.max_tokens};
    if (fails.contains(item))
      end.reason = "no luck";
    events_.insert({at, end});
  }
  std::optional<Event> next(std::optional<double> until) override {
    if (events_.empty() || (until && events_.begin()->first > *until)) {
      now_ = until.value_or(now_);
      return std::nullopt;
    }
    const Event event = events_.begin()->second;
    now_ = events_.begin()->first;
    events_.erase(events_.begin());
    if (stop_at >= 0 && now_ >= stop_at)
      stopped = true;
    return event;
  }
  void wake() override {}
  void cancel() override { events_.clear(); }
  std::optional<TargetState> state() override { return std::nullopt; }

  std::vector<std::pair<std::size_t, double>> sent;
  std::set<std::size_t> fails;
  double stop_at = -1;
  std::atomic<bool> stopped{false};

private:
  double first_;
  double between_;
  double now_ = 100; // its clock is its own
  std::multimap<double, Event> events_;
};

std::vector<Item> items_at(const std::vector<double>& arrivals, int tokens) {
  std::vector<Item> items;
  for (const double arrival : arrivals)
    items.push_back({arrival, std::string("x"), tokens});
  return items;
}

Figures figures_with(Latency latency, double seconds) {
  Figures figures;
  figures.completed = 1;
  figures.latencies[std::size_t(latency)] = Distribution({seconds});
  return figures;
}

} // namespace

// The sum of n gaps is Gamma(n b) / (n b) of its mean, nearly normal for n b >= 5,000: a mean off
// by 6 standard deviations comes by chance twice in 10^9. For the coefficient of variation, whose
// deviation is at most about sqrt((1 + 6 / b) / n) / 2 of it for these b, 8 are left.
TEST_CASE("gaps between arrivals have the Gamma distribution's mean and spread") {
  constexpr std::size_t count = 20'000;
  for (const double burstiness : {0.25, 1.0, 4.0, 25.0})
    for (const std::uint64_t seed : {0, 1, 2}) {
      CAPTURE(burstiness);
      CAPTURE(seed);
      const Distribution gaps(draw_gaps(count, 5, burstiness, seed));
      const double cv = 1 / std::sqrt(burstiness);
      CHECK(gaps.mean() == doctest::Approx(0.2).epsilon(6 * cv / std::sqrt(count)));
      CHECK(gaps.deviation() / gaps.mean() ==
            doctest::Approx(cv).epsilon(4 * std::sqrt((1 + 6 / burstiness) / count)));
    }
}

// By Dvoretzky, Kiefer, Wolfowitz (with Massart's constant) the largest distance to the true
// distribution exceeds d with probability 2 exp(-2 n d^2): 1e-8 at this d.
TEST_CASE("with burstiness 1 gaps are exponential") {
  constexpr std::size_t count = 20'000;
  const double bound = std::sqrt(std::log(2e8) / (2.0 * count));
  auto gaps = draw_gaps(count, 3, 1, 7);
  std::ranges::sort(gaps);
  double distance = 0;
  for (std::size_t i = 0; i < count; ++i)
    distance = std::max(distance, std::abs(1 - std::exp(-3 * gaps[i]) - double(i) / count));
  CHECK(distance < bound + 1.0 / count);
}

TEST_CASE("arrivals offer the rate that was asked for, whatever the seed") {
  for (const std::uint64_t seed : {0, 1, 2}) {
    const auto arrivals = draw_arrivals(50, 4, 0.5, seed);
    CHECK(arrivals.back() == doctest::Approx(50 / 4.0));
    CHECK(std::ranges::is_sorted(arrivals));
    CHECK(arrivals == draw_arrivals(50, 4, 0.5, seed));
    CHECK(arrivals != draw_arrivals(50, 4, 0.5, seed + 1));
    // Another rate stretches the same gaps.
    const auto faster = draw_arrivals(50, 8, 0.5, seed);
    for (std::size_t i = 0; i < 50; ++i)
      CHECK(2 * faster[i] == doctest::Approx(arrivals[i]));
    CHECK(gaps_of(arrivals)[0] > 0);
  }
  CHECK(draw_arrivals(3, infinity, 1, 0) == std::vector<double>{0, 0, 0});
}

TEST_CASE("lengths are drawn from the whole range around their mean") {
  const auto fixed = draw_lengths(10, {100, 20}, 0, 1);
  CHECK(std::ranges::all_of(fixed, [](Lengths l) { return l.prompt == 100 && l.output == 20; }));
  std::set<int> prompts;
  std::set<int> outputs;
  for (const Lengths& each : draw_lengths(5000, {10, 4}, 0.5, 1)) { // misses one: 11 (10/11)^5000
    prompts.insert(each.prompt);
    outputs.insert(each.output);
  }
  CHECK(prompts == std::set<int>{5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  CHECK(outputs == std::set<int>{2, 3, 4, 5, 6});
  for (const Lengths& each : draw_lengths(100, {3, 3}, 1, 1))
    CHECK((each.prompt >= 1 && each.prompt <= 6));
}

TEST_CASE("prompts cut from a pool have their length, and none begins like another") {
  std::vector<TokenId> ids(500);
  std::iota(ids.begin(), ids.end(), 0);
  const std::vector<Lengths> lengths(200, Lengths{40, 1});
  std::set<std::vector<TokenId>> beginnings;
  for (const Prompt& prompt : draw_prompts(PromptPool(ids), lengths, 3)) {
    const auto& tokens = std::get<std::vector<TokenId>>(prompt);
    CHECK(tokens.size() == 40);
    beginnings.insert({tokens.begin(), tokens.begin() + 4});
  }
  CHECK(beginnings.size() == 200); // 500^4 of them: two are equal 3 times in 10 million
  const PromptPool words("one two\n three  four\n");
  const auto text = std::get<std::string>(draw_prompts(words, {{5, 1}}, 3).front());
  std::istringstream read(text);
  CHECK(std::distance(std::istream_iterator<std::string>(read), {}) == 5);
}

TEST_CASE("a trace gives arrivals and lengths, at its own rate or another") {
  const TemporaryFolder folder;
  PlanOptions options;
  options.trace_file = folder.write(
      "trace.csv", "arrival,prompt,output,more\r\n10.5,100,20,x\r\n11, 5,6\r\n\r\n12.5,7,8\n");
  const PromptPool pool(std::vector<TokenId>{1, 2, 3});
  auto plan = Plan::load(options);
  REQUIRE(plan);
  REQUIRE(plan->size() == 3);
  auto items = plan->items(&pool);
  CHECK(items[0].arrival == 0);
  CHECK(items[1].arrival == 0.5);
  CHECK(items[2].arrival == 2);
  CHECK(items[0].max_tokens == 20);
  CHECK(std::get<std::vector<TokenId>>(items[2].prompt).size() == 7);
  items = plan->items(&pool, 3.0);
  CHECK(items[1].arrival == doctest::Approx(0.25));
  CHECK(items[2].arrival == doctest::Approx(1));
  CHECK(plan->items(&pool, infinity)[2].arrival == 0);
  options.requests = 2;
  CHECK(Plan::load(options)->size() == 2);
}

TEST_CASE("files that are no workload are errors that name the line") {
  const TemporaryFolder folder;
  for (const char* text :
       {"", "a,b,c\n", "0,1,1\n1,2\n", "0,1,1\n-1,1,1\n", "1,1,1\n0,1,1\n", "0,1,1\n1,0,1\n",
        "0,1,1\n1,1,x\n", "0,1,1\nnan,1,1\n", "0,1,1\ninf,1,1\n"}) {
    CAPTURE(text);
    const auto trace = read_trace(folder.write("t.csv", text));
    REQUIRE_FALSE(trace);
    CHECK(trace.error().code == ErrorCode::corrupt);
    CHECK(trace.error().message.find("line ") == 0);
  }
  for (const char* text :
       {"", "x\n", "{}\n", "{\"prompt\": 3}\n", "{\"prompt\": []}\n", "{\"prompt\": [1.5]}\n",
        "{\"prompt\": \"x\"}\n{\"prompt\": \"x\", \"max_tokens\": 0}\n"}) {
    CAPTURE(text);
    const auto prompts = read_prompts(folder.write("p.jsonl", text));
    REQUIRE_FALSE(prompts);
    CHECK(prompts.error().code == ErrorCode::corrupt);
  }
  CHECK(read_trace("/no/such.csv").error().code == ErrorCode::not_found);
}

TEST_CASE("prompts from a file are texts or ids, with lengths of their own or the common one") {
  const TemporaryFolder folder;
  PlanOptions options;
  options.prompts_file =
      folder.write("p.jsonl", "{\"prompt\": \"a\", \"max_tokens\": 3}\n{\"prompt\": [4, 5]}\n");
  options.mean.output = 9;
  const auto plan = Plan::load(options);
  REQUIRE(plan);
  CHECK_FALSE(plan->needs_pool());
  const auto items = plan->items(nullptr);
  CHECK(std::get<std::string>(items[0].prompt) == "a");
  CHECK(items[0].max_tokens == 3);
  CHECK(std::get<std::vector<TokenId>>(items[1].prompt) == std::vector<TokenId>{4, 5});
  CHECK(items[1].max_tokens == 9);
}

TEST_CASE("percentiles lie on straight lines between the values, as numpy's do") {
  const Distribution values({4, 1, 3, 2});
  CHECK(values.mean() == 2.5);
  CHECK(values.deviation() == doctest::Approx(std::sqrt(1.25)));
  CHECK(values.quantile(0) == 1);
  CHECK(values.quantile(0.5) == 2.5);
  CHECK(values.quantile(0.9) == doctest::Approx(3.7));
  CHECK(values.quantile(0.99) == doctest::Approx(3.97));
  CHECK(values.quantile(1) == 4);
  CHECK(Distribution({7}).quantile(0.99) == 7);
  CHECK(Distribution().quantile(0.5) == 0);
  CHECK(Distribution().deviation() == 0);
}

TEST_CASE("a run's figures are those of its requests") {
  Scripted target(0.5, 0.1);
  const auto items = items_at({0, 1, 1.25}, 5);
  const Run run = put_load(target, items, {}, target.stopped);
  CHECK(target.sent[2].second == doctest::Approx(101.25));
  const Figures figures = measure(run, {{Latency::ttft, 0.6}, {Latency::tpot, 0.2}});
  CHECK(figures.completed == 3);
  CHECK(figures.good == 3);
  CHECK(figures.input_tokens == 21);
  CHECK(figures.output_tokens == 15);
  CHECK(figures.seconds == doctest::Approx(1.25 + 0.5 + 4 * 0.1));
  CHECK(figures.peak_requests == 2);
  CHECK(figures.peak_output_throughput == 8); // from 1 to 2: five, and three of the third
  CHECK(figures.of(Latency::ttft).quantile(0.99) == doctest::Approx(0.5));
  CHECK(figures.of(Latency::itl).sorted().size() == 12);
  CHECK(figures.of(Latency::itl).mean() == doctest::Approx(0.1));
  CHECK(figures.of(Latency::tpot).mean() == doctest::Approx(0.1));
  CHECK(figures.of(Latency::e2el).mean() == doctest::Approx(0.9));
  CHECK(measure(run, {{Latency::e2el, 0.8}}).good == 0);
  CHECK_FALSE(measure(run).good);
}

TEST_CASE("a silence of any length costs no memory") {
  Scripted target(0.5, 0.1);
  const auto items = items_at({0, 1e15}, 5);
  CHECK(measure(put_load(target, items, {}, target.stopped)).peak_output_throughput == 5);
}

TEST_CASE("no more requests are under way than allowed; the others wait for an end") {
  Scripted target(1, 1);
  LoadOptions options;
  options.max_concurrency = 2;
  std::vector<std::size_t> ended;
  options.progress = [&](std::size_t count) { ended.push_back(count); };
  const Run run = put_load(target, items_at({0, 0, 0, 0, 0}, 1), options, target.stopped);
  CHECK(run.peak_sent == 2);
  std::vector<double> sent;
  for (const auto& [item, when] : target.sent)
    sent.push_back(when - 100);
  CHECK(sent == std::vector<double>{0, 0, 1, 1, 2});
  CHECK(ended == std::vector<std::size_t>{1, 2, 3, 4, 5});
  CHECK(measure(run).of(Latency::ttft).mean() == 1); // from when it was sent
}

TEST_CASE("requests that fail are counted by reason, and in no latency") {
  Scripted target(1, 1);
  target.fails = {1, 2};
  const Figures figures = measure(put_load(target, items_at({0, 0, 0}, 2), {}, target.stopped));
  CHECK(figures.completed == 1);
  CHECK(figures.failed == 2);
  CHECK(figures.failures.at("no luck") == 2);
  CHECK(figures.of(Latency::ttft).sorted().size() == 1);
  CHECK(figures.output_tokens == 2);
}

TEST_CASE("a run that is stopped keeps what was measured until then") {
  Scripted target(1, 1);
  target.stop_at = 105;
  const auto items = items_at({0, 1, 4.5, 60}, 3);
  const Run run = put_load(target, items, {}, target.stopped);
  CHECK(run.interrupted);
  const Figures figures = measure(run);
  CHECK(figures.completed == 2);
  CHECK(figures.failed == 0);
  CHECK(target.sent.size() == 3);
}

TEST_CASE("a stream is read in pieces of any length") {
  const std::string bytes =
      ": a comment\r\n\r\n"
      "data: {\"choices\": [{\"text\": \"a\", \"finish_reason\": null}]}\r\n\r\n"
      "data: {\"choices\": [{\"delta\": {\"role\": \"assistant\", \"content\": \"\"}}]}\n\n"
      "data:{\"choices\": [{\"delta\": {\"content\": \"b\"}, \"finish_reason\": \"length\"}]}\n\n"
      "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 5, \"completion_tokens\": 2}}\n\n"
      "data: [DONE]\n\n";
  for (std::size_t length = 1; length <= bytes.size(); length += 7) {
    EventStream events;
    int brought = 0;
    for (std::size_t at = 0; at < bytes.size(); at += length) {
      CHECK_FALSE((at == 0 && events.complete()));
      brought += events.feed(std::string_view(bytes).substr(at, length));
    }
    CHECK(brought == 2);
    CHECK(events.complete());
    CHECK(events.prompt_tokens() == 5);
    CHECK(events.output_tokens() == 2);
    CHECK(events.error().empty());
  }
  EventStream broken;
  broken.feed("data: {\"error\": {\"message\": \"out of luck\"}}\n\n");
  CHECK(broken.error() == "out of luck");
  CHECK_FALSE(broken.complete());
  EventStream nonsense;
  nonsense.feed("data: what\n");
  CHECK_FALSE(nonsense.error().empty());
  EventStream endless; // A server may send a line for ever.
  for (std::size_t sent = 0; sent <= apps::limits::answer_bytes; sent += std::size_t(1) << 20)
    endless.feed(std::string(std::size_t(1) << 20, 'x'));
  CHECK(endless.error() == "the stream has a line that does not end");
}

TEST_CASE("addresses of servers are read as clients write them") {
  CHECK(parse_base_url("http://localhost:8000")->text() == "http://localhost:8000");
  CHECK(parse_base_url("http://localhost:8000/v1/")->text() == "http://localhost:8000");
  CHECK(parse_base_url("https://a.org/b/v1")->text() == "https://a.org:443/b");
  CHECK(parse_base_url("http://[::1]:80")->host == "::1");
  CHECK(parse_base_url("http://[::1]")->text() == "http://[::1]:80");
  for (const char* wrong : {"", "localhost:8000", "ftp://a", "http://", "http://:80", "http://a:0",
                            "http://a:99999", "http://a:8x", "http://a/ b", "http://u@a"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_base_url(wrong));
  }
}

TEST_CASE("a server's metrics are read by vLLM's names") {
  const auto state = read_metrics("# HELP x\nvllm:num_requests_running{model_name=\"a b\"} 3\n"
                                  "vllm:num_requests_waiting{m=\"x\"} 4.0\n"
                                  "vllm:num_preemptions_total 5\n"
                                  "paceline_judged_tokens_total{m=\"x\"} 1e2\n"
                                  "vllm:spec_decode_num_accepted_tokens_total{m=\"x\"} 60\n");
  REQUIRE(state);
  CHECK(state->running == 3);
  CHECK(state->waiting == 4);
  CHECK(state->preemptions == 5);
  CHECK(state->judged == 100);
  CHECK(state->accepted == 60);
  CHECK_FALSE(read_metrics("something else\n"));
}

TEST_CASE("objectives name a statistic, a latency and a bound") {
  const auto objective = parse_objective("p99_tbt:100ms");
  REQUIRE(objective);
  CHECK(objective->name == "p99_tbt");
  CHECK(objective->latency == Latency::itl);
  CHECK(objective->share == 0.99);
  CHECK(objective->seconds == doctest::Approx(0.1));
  CHECK(parse_objective("median_ttft:2s")->seconds == 2);
  CHECK_FALSE(parse_objective("mean_e2el:50")->share);
  CHECK(parse_objective("p99.9_itl:50")->share == doctest::Approx(0.999));
  for (const char* wrong : {"", "p99", "p99_tbt", "p99_tbt:", "p99_tbt:-1", "p99_tbt:1h",
                            "p101_tbt:1", "p_tbt:1", "q_tbt:1", "p99_what:1", "99_tbt:1"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_objective(wrong));
  }
  CHECK(parse_limit("ttft:200")->seconds == doctest::Approx(0.2));
  CHECK_FALSE(parse_limit("ttft"));
}

TEST_CASE("the search finds the rate at which latency crosses its bound") {
  const std::vector<Objective> objectives{*parse_objective("p99_tbt:100ms")};
  for (const double limit : {0.01, 0.7, 1.0, 37.0, 900.0}) {
    CAPTURE(limit);
    const auto run = [&](double rate) {
      return std::optional(figures_with(Latency::itl, rate <= limit ? 0.05 : 0.2));
    };
    const Capacity capacity = find_capacity(run, objectives, 1, 0.05);
    CHECK(capacity.rate <= limit);
    CHECK(capacity.rate * 1.05 >= limit);
    CHECK(capacity.trials.size() < 30);
    const std::string svg = capacity_svg(capacity, objectives);
    CHECK(svg.starts_with("<svg "));
    CHECK(svg.ends_with("</svg>\n"));
    CHECK(svg.find("p99_tbt") != std::string::npos);
    CHECK(svg.find("nan") == std::string::npos);
  }
}

TEST_CASE("the search ends where every rate keeps the objective, none does, or it is stopped") {
  const std::vector<Objective> objectives{*parse_objective("p99_tbt:100ms")};
  const auto always = [&](double seconds) {
    return [=](double) { return std::optional(figures_with(Latency::itl, seconds)); };
  };
  CHECK(find_capacity(always(0.05), objectives, 1, 0.05).rate == infinity);
  CHECK(find_capacity(always(0.2), objectives, 1, 0.05).rate == 0);
  int runs = 0;
  const Capacity stopped = find_capacity(
      [&](double) -> std::optional<Figures> {
        if (++runs == 3)
          return std::nullopt;
        return figures_with(Latency::itl, 0.05);
      },
      objectives, 1, 0.05);
  CHECK(stopped.interrupted);
  CHECK(stopped.rate == 2);
  // A request that fails breaks an objective, too.
  const Capacity failing = find_capacity(
      [&](double rate) {
        Figures figures = figures_with(Latency::itl, 0.05);
        figures.failed = rate > 5;
        return std::optional(figures);
      },
      objectives, 1, 0.05);
  CHECK(failing.rate == doctest::Approx(5).epsilon(0.05));
}
