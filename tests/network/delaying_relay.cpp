// A node behind a slow wire, for measurements where the kernel delays nothing (docs/machines.md):
//
//   delaying_relay LISTEN_PORT TO_HOST TO_PORT MICROSECONDS [MEGABITS_PER_SECOND]
//
// It says its port when it is ready, and at its end (Ctrl-C) how late it was.
#include "tests/network/relay.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>

int main(int argc, char** argv) {
  using namespace paceline::testing;
  if (argc < 5)
    return std::fputs("usage: delaying_relay LISTEN_PORT TO_HOST TO_PORT MICROSECONDS "
                      "[MEGABITS_PER_SECOND]\n",
                      stderr),
           2;
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  const auto number = [&](int i) { return i < argc ? std::strtod(argv[i], nullptr) : 0; };
  const Relay relay({.listen_port = std::uint16_t(number(1)),
                     .to_host = argv[2],
                     .to_port = std::uint16_t(number(3)),
                     .delay = std::chrono::microseconds(std::int64_t(number(4))),
                     .bytes_per_second = number(5) * 1e6 / 8});
  std::printf("127.0.0.1:%d\n", int(relay.port()));
  std::fflush(stdout);
  int signal = 0;
  sigwait(&ends, &signal);
  const Lateness late = relay.lateness();
  std::printf("%llu pieces, late by %.0f us on average, %.0f us for 1 in 100\n",
              static_cast<unsigned long long>(late.count), double(late.mean.count()) / 1e3,
              double(late.p99.count()) / 1e3);
}
