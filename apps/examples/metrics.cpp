// Prints what an engine did, in the text format that Prometheus reads. It can also be written to a
// file for the node exporter, or answer a scrape (`paceline serve` has a whole set at /metrics).
#include "paceline/engine.hpp"

#include <cstdio>
#include <string>

void line(std::string& text, const char* name, const char* type, double value) {
  char row[160];
  std::snprintf(row, sizeof row, "# TYPE %s %s\n%s %.17g\n", name, type, name, value);
  text += row;
}

std::string exposition(const paceline::Metrics& m) {
  std::string text;
  line(text, "paceline_requests_running", "gauge", m.running);
  line(text, "paceline_requests_waiting", "gauge", m.waiting);
  line(text, "paceline_generated_tokens_total", "counter", double(m.generated_tokens));
  line(text, "paceline_judged_tokens_total", "counter", double(m.judged));
  line(text, "paceline_accepted_tokens_total", "counter", double(m.accepted));
  line(text, "paceline_target_busy_seconds_total", "counter", m.target_busy_seconds);
  line(text, "paceline_draft_busy_seconds_total", "counter", m.draft_busy_seconds);
  line(text, "paceline_kv_pages_used", "gauge", double(m.kv_pages_used));
  return text;
}

int main() {
  auto engine = paceline::Engine::open({});
  if (!engine) {
    std::fprintf(stderr, "%s\n", engine.error().text().c_str());
    return 1;
  }
  paceline::Request request;
  request.prompt = "def fibonacci(n):";
  request.max_tokens = 48;
  request.ignore_eos = true;
  if (const auto answer = engine->complete(request); !answer) {
    std::fprintf(stderr, "%s\n", answer.error().text().c_str());
    return 1;
  }
  std::fputs(exposition(engine->metrics()).c_str(), stdout);
}
