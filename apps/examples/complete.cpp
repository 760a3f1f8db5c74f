// The smallest use of the library: completes a prompt and prints the text as it comes.
#include "paceline/engine.hpp"

#include <cstdio>

int main(int count, char** arguments) {
  auto engine = paceline::Engine::open({}); // This is the demo pair, on this machine's cores.
  if (!engine) {
    std::fprintf(stderr, "%s\n", engine.error().text().c_str());
    return 1;
  }
  paceline::Request request;
  request.prompt = count > 1 ? arguments[1] : "def fibonacci(n):";
  request.max_tokens = 48;
  auto stream = engine->submit(request);
  if (!stream) {
    std::fprintf(stderr, "%s\n", stream.error().text().c_str());
    return 1;
  }
  while (auto event = stream->next())
    if (const auto* delta = std::get_if<paceline::Delta>(&*event))
      std::fputs(delta->text.c_str(), stdout);
  std::puts("");
}
