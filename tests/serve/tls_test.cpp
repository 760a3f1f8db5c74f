// HTTPS: the same answers behind a certificate, and clients that do not speak it.
#include "apps/server/tls.hpp"
#include "tests/serve/live_server.hpp"
#include "tests/serve/remote.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"

#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <doctest/doctest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>

using namespace paceline;
using namespace paceline::testing;
namespace asio = boost::asio;

namespace {

template <auto Free>
struct Freer {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using File = std::unique_ptr<std::FILE, Freer<std::fclose>>;

/// A certificate that its own key signed, in files that go with this object.
class Identity {
public:
  Identity() {
    const Key key(EVP_EC_gen("P-256"));
    const Certificate certificate(X509_new());
    X509_set_version(certificate.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
    X509_set_pubkey(certificate.get(), key.get());
    X509_NAME* subject = X509_get_subject_name(certificate.get());
    const auto* host = reinterpret_cast<const unsigned char*>("localhost");
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, host, -1, -1, 0);
    X509_set_issuer_name(certificate.get(), subject);
    REQUIRE(X509_sign(certificate.get(), key.get(), EVP_sha256()) > 0);
    const File certificate_out(std::fopen(certificate_file().c_str(), "w"));
    PEM_write_X509(certificate_out.get(), certificate.get());
    const File key_out(std::fopen(key_file().c_str(), "w"));
    PEM_write_PrivateKey(key_out.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  }
  Identity(const Identity&) = delete;
  Identity& operator=(const Identity&) = delete;
  std::string certificate_file() const { return folder_.file("cert.pem"); }
  std::string key_file() const { return folder_.file("key.pem"); }

private:
  TemporaryFolder folder_;
};

/// Sends bytes over TLS and reads to the end.
std::string over_tls(std::uint16_t port, const Identity& identity, const std::string& bytes) {
  asio::io_context io;
  asio::ssl::context trusting(asio::ssl::context::tls_client);
  trusting.load_verify_file(identity.certificate_file());
  trusting.set_verify_mode(asio::ssl::verify_peer);
  asio::ssl::stream<asio::ip::tcp::socket> stream(io, trusting);
  stream.next_layer().connect({asio::ip::address_v4::loopback(), port});
  stream.handshake(asio::ssl::stream_base::client);
  asio::write(stream, asio::buffer(bytes));
  std::string received;
  std::array<char, 4096> part{};
  boost::system::error_code ended;
  while (!ended)
    received.append(part.data(), stream.read_some(asio::buffer(part), ended));
  CHECK(ended == asio::error::eof); // said goodbye, not cut off
  return received;
}

std::string post(const std::string& body) {
  return "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

} // namespace

TEST_CASE("HTTPS gives the same answers, whole and streamed") {
  const Identity identity;
  apps::serve::Settings settings;
  settings.tls_certificate = identity.certificate_file();
  settings.tls_key = identity.key_file();
  settings.receive_timeout = std::chrono::seconds(4); // A greeting ends before, on a busy machine.
  LiveServer server(scripted(), settings);
  const std::string whole =
      over_tls(server.port(), identity, post(R"({"prompt": [1], "max_tokens": 20})"));
  CHECK(whole.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(whole.find(R"("completion_tokens":20)") != std::string::npos);
  const std::string streamed = over_tls(
      server.port(), identity, post(R"({"prompt": [1], "max_tokens": 2000, "stream": true})"));
  CHECK(streamed.find("data: [DONE]") != std::string::npos);
  CHECK(streamed.ends_with("0\r\n\r\n"));

  HttpClient plain(server.port()); // who does not speak TLS is let go
  plain.send("GET", "/health");
  CHECK(plain.read().status == 0);
  HttpClient silent(server.port());
  silent.ended();
  CHECK(over_tls(server.port(), identity, post(R"({"prompt": [1]})")).starts_with("HTTP/1.1 200"));
}

TEST_CASE("`bench serve` puts its load on a server whose authority it is told, and on no other") {
  const Identity identity;
  apps::serve::Settings settings;
  settings.tls_certificate = identity.certificate_file();
  settings.tls_key = identity.key_file();
  LiveServer server(scripted(), settings);
  std::vector<std::string> arguments{PACELINE_PROGRAM, "bench", "serve", "--num-prompts", "3"};
  arguments.push_back("--base-url");
  arguments.push_back("https://localhost:" + std::to_string(server.port()));
  const ProcessResult distrusted = run_process(arguments);
  CHECK(distrusted.status == 1);
  CHECK(distrusted.errors.find("--tls-ca") != std::string::npos);
  arguments.push_back("--tls-ca");
  arguments.push_back(identity.certificate_file());
  const ProcessResult trusted = run_process(arguments);
  CAPTURE(trusted.errors);
  CHECK(trusted.status == 0);
  CHECK(trusted.output.find("requests completed") != std::string::npos);
}

TEST_CASE("a certificate that was renewed is read again, and a broken one changes nothing") {
  const Identity old;
  const Identity renewed;
  const TemporaryFolder folder;
  apps::serve::Settings settings;
  settings.tls_certificate = folder.file("cert.pem");
  settings.tls_key = folder.file("key.pem");
  const auto install = [&](const Identity& identity) {
    constexpr auto replace = std::filesystem::copy_options::overwrite_existing;
    std::filesystem::copy_file(identity.certificate_file(), settings.tls_certificate, replace);
    std::filesystem::copy_file(identity.key_file(), settings.tls_key, replace);
  };
  install(old);
  LiveServer server(scripted(), settings);
  const std::string body = post(R"({"prompt": [1], "max_tokens": 2})");
  CHECK(over_tls(server.port(), old, body).starts_with("HTTP/1.1 200"));
  install(renewed);
  server.reload();
  CHECK(over_tls(server.port(), renewed, body).starts_with("HTTP/1.1 200"));
  CHECK_THROWS(over_tls(server.port(), old, body));
  std::filesystem::remove(settings.tls_key);
  server.reload();
  CHECK(over_tls(server.port(), renewed, body).starts_with("HTTP/1.1 200"));
}

TEST_CASE("a client by gRPC has TLS, trusts whom it is told to, and looks at the name") {
  const Identity identity;
  const Identity other;
  apps::serve::Settings settings;
  settings.tls_certificate = identity.certificate_file();
  settings.tls_key = identity.key_file();
  LiveServer server(scripted(), settings);
  asio::io_context io(1);
  const auto answer_of = [&](const std::string& host, const std::string& authorities, bool tls) {
    ClientOptions options;
    options.host = host;
    options.port = server.grpc_port();
    options.tls = tls;
    if (!tls) // the server waits for more of what looks like a greeting
      options.connect_timeout = std::chrono::milliseconds(20);
    options.tls_authorities = authorities;
    Client client(io.get_executor(), options);
    return run(io, ask_remote(client, prompt(500)));
  };
  const std::string trusted = identity.certificate_file();
  CHECK(answer_of("localhost", trusted, true).tokens == ask(server.engine(), prompt(500)).tokens);
  for (const Answer& refused :
       {answer_of("127.0.0.1", trusted, true),
        answer_of("localhost", other.certificate_file(), true), answer_of("localhost", "", true),
        answer_of("localhost", "/no/such/file", true)}) {
    CHECK((refused.end().error.value().code == ErrorCode::unavailable));
    CHECK(!refused.end().error->hint.empty());
  }
  CHECK(answer_of("localhost", "", false).end().error.has_value()); // waits for no TLS in vain
}

TEST_CASE("a renewed certificate is the gRPC port's, too, and calls under way go on") {
  Identity old;
  const Identity renewed;
  apps::serve::Settings settings;
  settings.tls_certificate = old.certificate_file();
  settings.tls_key = old.key_file();
  LiveServer server(scripted("sim:1ms"), settings);
  asio::io_context io(1);
  const auto client_that_trusts = [&](const std::string& authority) {
    ClientOptions options = Remote::at({}, server.grpc_port());
    options.host = "localhost";
    options.tls = true;
    options.tls_authorities = authority;
    return Client(io.get_executor(), options);
  };
  Client before = client_that_trusts(old.certificate_file());
  auto submitted = before.async_submit(prompt(300), asio::use_future);
  io.run();
  auto running = submitted.get();
  REQUIRE(running);
  const std::string trusted_once = old.certificate_file() + ".kept";
  std::filesystem::copy_file(old.certificate_file(), trusted_once);
  for (const auto& [from, to] : {std::pair(renewed.certificate_file(), old.certificate_file()),
                                 std::pair(renewed.key_file(), old.key_file())})
    std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
  server.reload();
  Client after = client_that_trusts(renewed.certificate_file());
  CHECK(!run(io, ask_remote(after, prompt(3))).end().error);
  Client late = client_that_trusts(trusted_once);
  CHECK(run(io, ask_remote(late, prompt(3))).end().error);
  CHECK(run(io, read_stream(std::move(*running))).tokens.size() == 300);
}

TEST_CASE("a certificate or key that cannot be used is named") {
  const Identity identity;
  const Identity other;
  const auto problem = [](const std::string& certificate, const std::string& key) {
    return apps::serve::open_tls(certificate, key).error().text();
  };
  CHECK(problem("/no/cert", identity.key_file()).find("/no/cert") != std::string::npos);
  CHECK(problem(identity.certificate_file(), "/no/key").find("/no/key") != std::string::npos);
  CHECK(problem(identity.certificate_file(), other.key_file()).find(other.key_file()) !=
        std::string::npos);
  CHECK(problem(identity.certificate_file(), "").find("--tls-key") != std::string::npos);
}
