#include "nodes/certificate_hosts.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <boost/asio/ip/address.hpp>
#include <memory>
#include <vector>

namespace paceline::nodes {
namespace {

// CAF 0.17's session does not show its SSL object, which has to be told whom to expect. An explicit
// instantiation may name a private member.
using Member = SSL* caf::openssl::session::*;
SSL* ssl_of(caf::openssl::session& session);
template <Member member>
struct Reach {
  friend SSL* ssl_of(caf::openssl::session& session) { return session.*member; }
};
template struct Reach<&caf::openssl::session::ssl_>;

/// Returns the index under which an SSL object keeps the peer that it expects.
int expected_index() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

std::string text_of(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          std::size_t(ASN1_STRING_length(text))};
}

std::string address_text(const ASN1_STRING* bytes) {
  const std::string raw = text_of(bytes);
  namespace ip = boost::asio::ip;
  if (ip::address_v4::bytes_type v4{}; raw.size() == v4.size()) {
    std::copy(raw.begin(), raw.end(), v4.begin());
    return ip::address_v4(v4).to_string();
  }
  if (ip::address_v6::bytes_type v6{}; raw.size() == v6.size()) {
    std::copy(raw.begin(), raw.end(), v6.begin());
    return ip::address_v6(v6).to_string();
  }
  return "?";
}

/// Returns the names and addresses that a certificate is for.
std::vector<std::string> hosts_of(X509* certificate) {
  const std::unique_ptr<GENERAL_NAMES, void (*)(GENERAL_NAMES*)> names(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)),
      GENERAL_NAMES_free);
  std::vector<std::string> hosts;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_DNS)
      hosts.push_back(text_of(name->d.dNSName));
    else if (name->type == GEN_IPADD)
      hosts.push_back(address_text(name->d.iPAddress));
  }
  return hosts;
}

bool is_for(X509* certificate, const std::string& host) {
  return X509_check_ip_asc(certificate, host.c_str(), 0) == 1 ||
         X509_check_host(certificate, host.data(), host.size(), X509_CHECK_FLAG_NEVER_CHECK_SUBJECT,
                         nullptr) == 1;
}

/// Is called for each certificate of the peer's chain, from the authority's on.
int verify(int trusted, X509_STORE_CTX* context) {
  const auto* ssl =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx()));
  const auto* expected = static_cast<const ExpectedPeer*>(SSL_get_ex_data(ssl, expected_index()));
  if (!trusted) {
    *expected->distrust =
        fmt::format("{} shows a certificate that is not the authority's ({})", expected->host,
                    X509_verify_cert_error_string(X509_STORE_CTX_get_error(context)));
    return 0;
  }
  if (X509_STORE_CTX_get_error_depth(context) > 0)
    return 1;
  X509* own = X509_STORE_CTX_get_current_cert(context);
  const auto hosts = hosts_of(own);
  if (hosts.empty() || is_for(own, expected->host))
    return 1;
  X509_STORE_CTX_set_error(context, X509_V_ERR_HOSTNAME_MISMATCH);
  *expected->distrust =
      fmt::format("{} shows a certificate that is for {}", expected->host, fmt::join(hosts, ", "));
  return 0;
}

} // namespace

void expect_peer(caf::openssl::session& session, const ExpectedPeer& expected) {
  SSL* ssl = ssl_of(session);
  SSL_set_ex_data(ssl, expected_index(), const_cast<ExpectedPeer*>(&expected)); // NOLINT
  SSL_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, verify);
}

} // namespace paceline::nodes
