// TLS, configured by the operator's certificate.
#pragma once

#include "paceline/error.hpp"

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

namespace paceline::apps::serve {

/// Makes a context for TLS 1.2 or newer. certificate, key: PEM files; the certificate's may hold
/// its chain.
Result<std::unique_ptr<boost::asio::ssl::context>> open_tls(const std::string& certificate,
                                                            const std::string& key);

} // namespace paceline::apps::serve
