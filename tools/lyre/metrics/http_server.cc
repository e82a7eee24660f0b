#include "tools/lyre/metrics/http_server.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <csignal>
#include <iostream>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "libclient/include/lyre/lyre.h"
#include "tools/lyre/failure.h"
#include "tools/lyre/metrics/shared_texts.h"
#include "tools/lyre/units.h"

namespace lyre::tools {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Local = asio::local::stream_protocol;
/// TCP or a UNIX socket.
using Stream = asio::generic::stream_protocol;
using boost::system::error_code;

/// A request, and an answer, that take longer are given up: the scraper is hung up on.
constexpr std::chrono::seconds kPatience{10};
/// Connections at a time. The oldest one is hung up on for another one: a scrape takes
/// milliseconds.
constexpr size_t kScrapersMax = 32;
/// For the answer to a scrape: the daemon's control socket and the files that come with its reply.
constexpr rlim_t kDescriptorsForAnswer = 8;
/// Pause of accepting when the system has no descriptors or memory.
constexpr std::chrono::milliseconds kRetryPause{100};
/// A scrape has no body.
constexpr uint64_t kBodyBytesMax = 1024;

/// One scraper: a request, its answer, and the next request.
class Scraper : public std::enable_shared_from_this<Scraper> {
 public:
  Scraper(Stream::socket socket, SharedTexts& texts) : stream_(std::move(socket)), texts_(texts) {}

  void read() {
    parser_.emplace();
    parser_->body_limit(kBodyBytesMax);
    stream_.expires_after(kPatience);
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](error_code error, size_t) {
                       if (!error) self->answer();
                     });
  }

  void hang_up() { stream_.close(); }

 private:
  void answer() {
    const auto& request = parser_->get();
    response_ = {};
    response_.version(request.version());
    response_.keep_alive(request.keep_alive());
    const auto target = request.target();
    if (target.substr(0, target.find('?')) != "/metrics") {
      response_.result(http::status::not_found);
    } else if (request.method() != http::verb::get) {
      response_.result(http::status::method_not_allowed);
    } else {
      response_.set(http::field::content_type, "text/plain; version=0.0.4; charset=utf-8");
      text_ = texts_.next();
      response_.body() = {text_->data(), text_->size()};
    }
    response_.prepare_payload();
    stream_.expires_after(kPatience);
    http::async_write(stream_, response_, [self = shared_from_this()](error_code error, size_t) {
      self->text_.reset();
      if (!error && self->response_.keep_alive()) self->read();
    });
  }

  beast::basic_stream<Stream> stream_;
  SharedTexts& texts_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::shared_ptr<const std::string> text_;  ///< while it is sent
  http::response<http::span_body<const char>> response_;
};

/// Connections for which there are descriptors: an answer for which none are left says that there
/// is no daemon. `own`: the descriptor that this server opened last.
size_t scrapers_max(int own) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kScrapersMax;
  const rlim_t taken = static_cast<rlim_t>(own) + 1 + kDescriptorsForAnswer;
  if (limit.rlim_cur <= taken) return 1;
  return std::min<rlim_t>(limit.rlim_cur - taken, kScrapersMax);
}

/// Where the server listens.
struct Address {
  std::string text;
  Stream::endpoint endpoint;
  bool is_path;
};

Address address_of(const std::string& text) {
  if (text.starts_with('/')) {
    if (text.size() >= sizeof(sockaddr_un::sun_path)) {
      throw Failure(kExitFailure, text + ": a socket's path has at most " +
                                      std::to_string(sizeof(sockaddr_un::sun_path) - 1) + " bytes");
    }
    return {text, Local::endpoint(text), true};
  }
  lyre_addr address{};
  if (text.starts_with(':') || lyre_addr_parse(text.c_str(), &address) != 0 || address.port == 0) {
    throw Failure(kExitUsage, "--listen: '" + text +
                                  "' is neither ADDR:PORT, as 127.0.0.1:9417, nor the path of a "
                                  "UNIX socket");
  }
  const auto ip = asio::ip::make_address(format_address(address.address));
  return {text, asio::ip::tcp::endpoint(ip, address.port), false};
}

/// The socket of a server that died: nobody listens there any more. A file of another kind refuses
/// connections, too, and stays.
void remove_stale(asio::io_context& io, const std::string& path) {
  struct stat file {};
  if (::lstat(path.c_str(), &file) != 0 || !S_ISSOCK(file.st_mode)) return;
  error_code error;
  Local::socket probe(io);
  probe.connect(Local::endpoint(path), error);
  if (error == boost::system::errc::connection_refused) ::unlink(path.c_str());
}

class Server {
 public:
  Server(asio::io_context& io, const Address& address, const std::function<std::string()>& text)
      : acceptor_(io), retry_(io), address_(address), texts_(text) {
    if (address.is_path) remove_stale(io, address.text);
    if (const error_code error = listen()) {
      throw Failure(kExitFailure, "cannot listen on " + address.text + ": " + error.message());
    }
    scrapers_max_ = scrapers_max(acceptor_.native_handle());
    accept();
  }
  ~Server() {
    if (address_.is_path) ::unlink(address_.text.c_str());
  }

 private:
  error_code listen() {
    error_code error;
    acceptor_.open(address_.endpoint.protocol(), error);
    if (!error && !address_.is_path) {
      // Connections of a server that has ended do not keep its address.
      acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    }
    if (!error && address_.endpoint.protocol().family() == AF_INET6) {
      acceptor_.set_option(asio::ip::v6_only(true), error);
    }
    if (!error) acceptor_.bind(address_.endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    return error;
  }
  void accept() {
    acceptor_.async_accept([this](error_code error, Stream::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (is_short(error)) return accept_later();
      if (error && error != asio::error::connection_aborted) {
        throw Failure(kExitFailure, address_.text + ": " + error.message());
      }
      if (!error) begin(std::move(socket));
      accept();
    });
  }
  static bool is_short(error_code error) {
    namespace errc = boost::system::errc;
    return error == errc::too_many_files_open || error == errc::too_many_files_open_in_system ||
           error == errc::no_buffer_space || error == errc::not_enough_memory;
  }
  void accept_later() {
    hang_up_on_oldest();
    retry_.expires_after(kRetryPause);
    retry_.async_wait([this](error_code error) {
      if (!error) accept();
    });
  }
  void begin(Stream::socket socket) {
    scrapers_.remove_if([](const auto& scraper) { return scraper.expired(); });
    if (scrapers_.size() >= scrapers_max_) hang_up_on_oldest();
    const auto scraper = std::make_shared<Scraper>(std::move(socket), texts_);
    scrapers_.push_back(scraper);
    scraper->read();
  }
  void hang_up_on_oldest() {
    scrapers_.remove_if([](const auto& scraper) { return scraper.expired(); });
    if (scrapers_.empty()) return;
    if (const auto oldest = scrapers_.front().lock()) oldest->hang_up();
    scrapers_.pop_front();
  }

  asio::basic_socket_acceptor<Stream> acceptor_;
  asio::steady_timer retry_;
  std::list<std::weak_ptr<Scraper>> scrapers_;  ///< in the order of their coming
  size_t scrapers_max_ = kScrapersMax;
  const Address address_;
  SharedTexts texts_;
};

}  // namespace

void serve_metrics(const std::string& address, const std::function<std::string()>& text) {
  asio::io_context io;
  asio::signal_set ends(io, SIGINT, SIGTERM);
  ends.async_wait([&io](error_code, int) { io.stop(); });
  const Address at = address_of(address);
  const Server server(io, at, text);
  std::cerr << "serving "
            << (at.is_path ? "/metrics at " + address : "http://" + address + "/metrics")
            << std::endl;
  io.run();
}

}  // namespace lyre::tools
