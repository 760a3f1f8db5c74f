#include "apps/server/notify.hpp"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace paceline::apps::serve {

void notify_manager(const std::string& state) {
  const char* name = std::getenv("NOTIFY_SOCKET");
  const std::string_view path = name ? name : "";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path))
    return;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path.front() == '@') // An address of Linux's abstract namespace, not a file.
    address.sun_path[0] = '\0';
  const int file = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (file < 0)
    return;
  (void)::sendto(file, state.data(), state.size(), MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&address),
                 socklen_t(offsetof(sockaddr_un, sun_path) + path.size()));
  ::close(file);
}

} // namespace paceline::apps::serve
