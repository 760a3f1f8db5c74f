#include "apps/server/metrics.hpp"

#include "apps/server/process_metrics.hpp"

#include <map>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

namespace paceline::apps::serve {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

namespace {

// These bounds are vLLM's own, so that its dashboards work.
const prometheus::Histogram::BucketBoundaries first_token_bounds{
    .001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
    1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
const prometheus::Histogram::BucketBoundaries request_bounds{
    .3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
// These are vLLM's as well, with finer ones below its 10 ms.
const prometheus::Histogram::BucketBoundaries token_bounds{
    .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .075, .1, .15, .2,
    .3,    .4,     .5,    .75,  1,     2.5,  5,   7.5,  10,  20,   40, 80};

// These are vLLM's: 1, 2, 5, 10 ... up to any context.
const prometheus::Histogram::BucketBoundaries length_bounds{
    1,    2,    5,     10,    20,    50,     100,    200,    500,    1000,
    2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000};

using Labels = std::vector<ClientMetric::Label>;

/// Collects the metric families of one page. A family that several engines have is one, with labels
/// that differ.
class Page {
public:
  /// Sets the labels that all metrics added from now on have besides their own.
  void set_labels(Labels common) { common_ = std::move(common); }

  void counter(const std::string& name, const std::string& help, double value) {
    counters(name, help, "", {{"", value}});
  }
  void gauge(const std::string& name, const std::string& help, double value) {
    gauges(name, help, "", {{"", value}});
  }
  void gauges(const std::string& name, const std::string& help, const std::string& label,
              const std::vector<std::pair<std::string, double>>& values) {
    MetricFamily& all = family(name, help, MetricType::Gauge);
    for (const auto& [of, value] : values) {
      all.metric.push_back(labelled(label, of));
      all.metric.back().gauge.value = value;
    }
  }
  /// Adds one counter for each value of `label`.
  void counters(const std::string& name, const std::string& help, const std::string& label,
                const std::vector<std::pair<std::string, double>>& values) {
    MetricFamily& all = family(name, help, MetricType::Counter);
    for (const auto& [of, value] : values) {
      all.metric.push_back(labelled(label, of));
      all.metric.back().counter.value = value;
    }
  }
  void histogram(const std::string& name, const std::string& help,
                 const prometheus::Histogram& values) {
    ClientMetric metric = values.Collect();
    metric.label = common_;
    family(name, help, MetricType::Histogram).metric.push_back(std::move(metric));
  }
  std::string text() const { return prometheus::TextSerializer().Serialize(families_); }

private:
  ClientMetric labelled(const std::string& label, const std::string& of) const {
    ClientMetric metric;
    metric.label = common_;
    if (!label.empty())
      metric.label.push_back({label, of});
    return metric;
  }
  MetricFamily& family(const std::string& name, const std::string& help, MetricType type) {
    const auto [known, is_new] = index_.try_emplace(name, families_.size());
    if (!is_new)
      return families_[known->second];
    MetricFamily& added = families_.emplace_back();
    added.name = name;
    added.help = help;
    added.type = type;
    return added;
  }

  Labels common_;
  std::vector<MetricFamily> families_;
  std::map<std::string, std::size_t> index_; ///< Indices of the families, by name.
};

double share(std::size_t part, std::size_t whole) {
  return whole ? double(part) / double(whole) : 0;
}

void add_engine(Page& page, const Metrics& m) {
  page.gauge("vllm:num_requests_running", "Requests in the batch.", m.running);
  page.gauge("vllm:num_requests_waiting", "Requests that wait for a place in it.", m.waiting);
  page.gauge("vllm:kv_cache_usage_perc", "Share of the KV cache's pages in use, 0 to 1.",
             share(m.kv_pages_used, m.kv_pages_total));
  page.counter("vllm:num_preemptions_total", "Requests that lost their pages and were recomputed.",
               double(m.preemptions));
  page.counter("vllm:prompt_tokens_total", "Prompt tokens taken in.", double(m.prompt_tokens));
  page.counter("vllm:generation_tokens_total", "Tokens generated.", double(m.generated_tokens));
}

void add_speculation(Page& page, const Metrics& m) {
  page.counter("vllm:spec_decode_num_drafts_total", "Windows that were judged.", double(m.windows));
  page.counter("vllm:spec_decode_num_draft_tokens_total",
               "Tokens in them, those behind a rejection included.", double(m.window_tokens));
  page.counter("vllm:spec_decode_num_accepted_tokens_total", "Drafted tokens accepted.",
               double(m.accepted));
  std::vector<std::pair<std::string, double>> by_position;
  for (const std::uint64_t count : m.accepted_by_position)
    by_position.emplace_back(std::to_string(by_position.size()), double(count));
  page.counters("vllm:spec_decode_num_accepted_tokens_per_pos_total",
                "Drafted tokens accepted, by their position in the window.", "position",
                by_position);
  page.counter("paceline_drafted_tokens_total", "Tokens drafted.", double(m.drafted));
  page.counter("paceline_judged_tokens_total",
               "Drafted tokens judged: accepted ones and first rejections.", double(m.judged));
  std::vector<std::pair<std::string, double>> judged;
  std::vector<std::pair<std::string, double>> accepted;
  for (const DrafterCounts& of : m.drafters) {
    judged.emplace_back(of.name, double(of.judged));
    accepted.emplace_back(of.name, double(of.accepted));
  }
  page.counters("paceline_drafter_judged_tokens_total", "Drafted tokens judged, by who drafted.",
                "draft", judged);
  page.counters("paceline_drafter_accepted_tokens_total",
                "Drafted tokens accepted, by who drafted.", "draft", accepted);
  page.counter("paceline_discarded_tokens_total", "Drafted tokens that were never judged.",
               double(m.drafted > m.judged ? m.drafted - m.judged : 0));
  page.counter("paceline_lookahead_rounds_total", "Rounds that had a lookahead to hit.",
               double(m.lookahead_rounds));
  page.counters("paceline_lookahead_hits_total", "Rounds whose next window was ready.", "kind",
                {{"chain", double(m.lookahead_hits)}, {"fork", double(m.fork_hits)}});
  page.counter("paceline_tree_rows_total", "Rows of target steps for guesses beside windows.",
               double(m.tree_rows));
  page.counter("paceline_tree_tokens_total", "Tokens that guesses beside windows brought.",
               double(m.tree_tokens));
}

void add_actors(Page& page, const Metrics& m) {
  page.counters("paceline_lane_busy_seconds_total",
                "Time in which a lane computed: its rate is the lane's busy share.", "lane",
                {{"target", m.target_busy_seconds}, {"draft", m.draft_busy_seconds}});
  page.counter("paceline_overlapped_seconds_total", "Drafting time under target time.",
               m.overlapped_seconds);
  page.counter("paceline_rounds_total", "Target steps that judged or drew tokens.",
               double(m.rounds));
  page.counter("paceline_actor_restarts_total", "Actors restarted by the supervisor.",
               double(m.restarts));
  page.counter("paceline_drafter_failures_total",
               "Calls of a drafter that threw or gave what cannot be.", double(m.drafter_failures));
  page.counter("paceline_callback_failures_total", "Functions given to streams that threw.",
               double(m.callback_failures));
  page.counter("paceline_draft_late_total",
               "Times the draft was waited for in vain; then nobody waits for a while.",
               double(m.draft_late));
  page.counter("paceline_draft_pauses_total",
               "Sequences that a late draft held up; then nothing is drafted for a while.",
               double(m.draft_pauses));
  page.gauge("paceline_draft_disabled", "1 once nothing is drafted any more, else 0.",
             m.draft_disabled);
  page.gauge("paceline_target_moved", "1 once the target goes on on its standby, else 0.",
             m.target_moved);
  page.counter("paceline_actor_messages_total", "Messages between actors.", double(m.messages));
  page.gauge("paceline_kv_pages", "Pages of the KV cache.", double(m.kv_pages_total));
  page.gauge("paceline_full_length_requests",
             "Requests of the full length that have room in the KV cache at a time.",
             m.full_length_requests);
  page.gauge("paceline_kv_pages_used", "Those that requests hold.", double(m.kv_pages_used));
  page.gauge("paceline_kv_pages_quarantined", "Those that only steps in flight hold.",
             double(m.kv_pages_quarantined));
}

const char* finished_reason(FinishReason reason) {
  switch (reason) {
  case FinishReason::stop: return "stop";
  case FinishReason::length: return "length";
  case FinishReason::cancelled: return "abort";
  case FinishReason::deadline:
  case FinishReason::error: return "error";
  }
  return "error";
}

} // namespace

struct ModelMetrics::Parts {
  Labels labels;
  prometheus::Histogram first_token{first_token_bounds};
  prometheus::Histogram token_gap{token_bounds};
  prometheus::Histogram whole{request_bounds};
  prometheus::Histogram queue{request_bounds};
  prometheus::Histogram prefill{request_bounds};
  prometheus::Histogram decode{request_bounds};
  prometheus::Histogram inference{request_bounds};
  prometheus::Histogram prompt_tokens{length_bounds};
  prometheus::Histogram generation_tokens{length_bounds};
  double cache_queries = 0; ///< Tokens of prompts.
  double cache_hits = 0;    ///< Tokens of prompts that the cache had already.
  std::map<std::string, double> ended{{"abort", 0}, {"error", 0}, {"length", 0}, {"stop", 0}};

  void add_to(Page& page) const;
};

struct ServerMetrics::Parts {
  Labels labels;
  std::map<std::string, double> answered; ///< Answers by status.
  std::map<std::string, double> submitted{{"accepted", 0}};
};

ModelMetrics::ModelMetrics(std::string model, int number) : parts_(std::make_unique<Parts>()) {
  parts_->labels = {{"engine", std::to_string(number)}, {"model_name", std::move(model)}};
}
ModelMetrics::~ModelMetrics() = default;

ServerMetrics::ServerMetrics(std::string model) : parts_(std::make_unique<Parts>()) {
  if (!model.empty())
    parts_->labels = {{"engine", "0"}, {"model_name", std::move(model)}};
}
ServerMetrics::~ServerMetrics() = default;

void ModelMetrics::first_token(double after) {
  parts_->first_token.Observe(after);
}

void ModelMetrics::more_tokens(double after, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) // Tokens of one round come together.
    parts_->token_gap.Observe(after / double(count));
}

void ModelMetrics::finished(const Finished& end, double took) {
  parts_->ended[finished_reason(end.reason)] += 1;
  parts_->whole.Observe(took);
  const Timing& timing = end.timing;
  parts_->queue.Observe(timing.queue_seconds);
  if (end.usage.completion_tokens > 0) {
    parts_->prefill.Observe(timing.time_to_first_token_seconds - timing.queue_seconds);
    parts_->decode.Observe(timing.decode_seconds);
    parts_->inference.Observe(timing.time_to_first_token_seconds - timing.queue_seconds +
                              timing.decode_seconds);
  }
  parts_->prompt_tokens.Observe(end.usage.prompt_tokens);
  parts_->generation_tokens.Observe(end.usage.completion_tokens);
  parts_->cache_queries += end.usage.prompt_tokens;
  parts_->cache_hits += end.usage.cached_tokens;
}

void ServerMetrics::answered(unsigned status) {
  parts_->answered[std::to_string(status)] += 1;
}

void ServerMetrics::submitted(const std::string& outcome) {
  parts_->submitted[outcome] += 1;
}

void ModelMetrics::Parts::add_to(Page& page) const {
  page.histogram("vllm:time_to_first_token_seconds", "From a request's arrival to its first token.",
                 first_token);
  page.histogram("vllm:inter_token_latency_seconds",
                 "Between two tokens; those of one round share its time.", token_gap);
  page.histogram("vllm:e2e_request_latency_seconds", "From a request's arrival to its last token.",
                 whole);
  page.histogram("vllm:request_queue_time_seconds", "Waiting for a place in the batch.", queue);
  page.histogram("vllm:request_prefill_time_seconds",
                 "From a place in the batch to the first token.", prefill);
  page.histogram("vllm:request_decode_time_seconds", "From the first token to the last.", decode);
  page.histogram("vllm:request_inference_time_seconds",
                 "From a place in the batch to the last token.", inference);
  page.histogram("vllm:request_prompt_tokens", "Tokens of a request's prompt.", prompt_tokens);
  page.histogram("vllm:request_generation_tokens", "Tokens of a request's answer.",
                 generation_tokens);
  page.counter("vllm:prefix_cache_queries_total", "Prompt tokens looked for in the prefix cache.",
               cache_queries);
  page.counter("vllm:prefix_cache_hits_total", "Prompt tokens found there.", cache_hits);
  page.counters("vllm:request_success_total", "Requests that ended, by reason.", "finished_reason",
                {ended.begin(), ended.end()});
}

namespace {

void add_placed(Page& page, const ServerMetrics::Placed& placed) {
  std::vector<std::pair<std::string, double>> seconds, running;
  for (const auto& queue : placed.queues) {
    seconds.emplace_back(queue.devices, queue.seconds);
    running.emplace_back(queue.devices, double(queue.running));
  }
  page.gauges("paceline_group_queue_seconds", "Until the devices are expected to be done.",
              "device", seconds);
  page.gauges("paceline_group_requests_running", "Requests that were sent there.", "device",
              running);
  page.counters("paceline_late_requests_total",
                "Requests refused since they would have missed their objective.", "model_name",
                placed.late);
  page.counters("paceline_model_moves_total", "Models loaded and unloaded, and new plans.", "kind",
                placed.moves);
}

} // namespace

std::string ServerMetrics::text(const std::vector<Of>& engines, const Open& open,
                                const Placed* placed) const {
  Page page;
  for (const auto& [requests, engine] : engines) {
    page.set_labels(requests->parts_->labels);
    requests->parts_->add_to(page);
    add_engine(page, engine);
    add_speculation(page, engine);
    add_actors(page, engine);
  }
  page.set_labels(parts_->labels);
  if (placed)
    add_placed(page, *placed);
  page.counters("paceline_http_responses_total", "HTTP requests answered, by status.", "status",
                {parts_->answered.begin(), parts_->answered.end()});
  page.gauge("paceline_http_connections", "Connections open.", open.connections);
  page.gauge("paceline_http_requests_running", "HTTP requests being answered.", open.requests);
  page.counters("paceline_grpc_requests_total",
                "Requests by gRPC, accepted or refused, by outcome.", "outcome",
                {parts_->submitted.begin(), parts_->submitted.end()});
  page.gauge("paceline_grpc_connections", "Connections open.", open.grpc_connections);
  page.gauge("paceline_grpc_requests_running", "Requests by gRPC being answered.",
             open.grpc_requests);
  page.gauge("paceline_request_memory_bytes", "Held of what clients sent: bodies and prompts.",
             double(open.request_memory));
  return page.text() + process_text();
}

} // namespace paceline::apps::serve
