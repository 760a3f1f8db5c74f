#include "apps/server/tls.hpp"

namespace paceline::apps::serve {
namespace ssl = boost::asio::ssl;

Result<std::unique_ptr<ssl::context>> open_tls(const std::string& certificate,
                                               const std::string& key) {
  if (certificate.empty() || key.empty())
    return fail(ErrorCode::invalid_argument, "TLS needs a certificate and its key",
                "give both --tls-cert and --tls-key");
  auto context = std::make_unique<ssl::context>(ssl::context::tls_server);
  context->set_options(ssl::context::default_workarounds | ssl::context::no_tlsv1 |
                       ssl::context::no_tlsv1_1);
  boost::system::error_code wrong;
  context->use_certificate_chain_file(certificate, wrong);
  if (wrong)
    return fail(ErrorCode::invalid_argument,
                "cannot use the certificate in " + certificate + " (" + wrong.message() + ")",
                "give a PEM file that this user may read");
  context->use_private_key_file(key, ssl::context::pem, wrong);
  if (wrong)
    return fail(ErrorCode::invalid_argument,
                "cannot use the key in " + key + " (" + wrong.message() + ")",
                "give the certificate's own key, as a PEM file that this user may read");
  return context;
}

} // namespace paceline::apps::serve
