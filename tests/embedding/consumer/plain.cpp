#include <paceline/engine.hpp>

#include <cstdio>

int main() {
  auto engine = paceline::Engine::open({});
  if (!engine)
    return std::fprintf(stderr, "%s\n", engine.error().text().c_str()), 1;
  paceline::Request request;
  request.prompt = "def add(a, b):";
  request.max_tokens = 8;
  const auto answer = engine->complete(request);
  return answer && !answer->tokens.empty() ? 0 : 1;
}
