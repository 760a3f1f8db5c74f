#include "apps/server/hangups.hpp"

#include <array>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

namespace paceline::apps::serve {

Hangups::Hangups(const boost::asio::any_io_executor& executor, std::function<void()> gone)
    : events_(executor, epoll_create1(EPOLL_CLOEXEC)), gone_(std::move(gone)) {
  wait();
}

Hangups::~Hangups() {
  for (const int copy : copies_)
    close(copy);
}

void Hangups::stop() {
  while (!copies_.empty())
    end(*copies_.begin());
  events_.cancel();
}

bool Hangups::watch(int socket) {
  const int copy = fcntl(socket, F_DUPFD_CLOEXEC, 0);
  if (copy < 0)
    return false;
  epoll_event hangup{}; // epoll reports a hang-up whatever events are asked for.
  hangup.data.fd = copy;
  if (epoll_ctl(events_.native_handle(), EPOLL_CTL_ADD, copy, &hangup) != 0) {
    close(copy);
    return false;
  }
  copies_.insert(copy);
  return true;
}

void Hangups::wait() {
  events_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [this, here = std::weak_ptr(here_)](boost::system::error_code cancelled) {
                       if (cancelled || here.expired())
                         return;
                       std::array<epoll_event, 64> ended{};
                       const int count =
                           epoll_wait(events_.native_handle(), ended.data(), int(ended.size()), 0);
                       for (int i = 0; i < count; ++i)
                         end(ended[std::size_t(i)].data.fd);
                       wait();
                     });
}

void Hangups::end(int copy) {
  epoll_ctl(events_.native_handle(), EPOLL_CTL_DEL, copy, nullptr);
  close(copy);
  copies_.erase(copy);
  gone_();
}

} // namespace paceline::apps::serve
