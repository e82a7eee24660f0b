#include "tools/lyre/metrics/unix_server.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
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

#include "tools/lyre/failure.h"

namespace lyre::tools {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Local = asio::local::stream_protocol;
using boost::system::error_code;

/// A scraper that sends nothing, or reads nothing, for so long is hung up on.
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
  Scraper(Local::socket socket, const std::function<std::string()>& text)
      : stream_(std::move(socket)), text_(text) {}

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
    if (request.target() != "/metrics") {
      response_.result(http::status::not_found);
    } else if (request.method() != http::verb::get) {
      response_.result(http::status::method_not_allowed);
    } else {
      response_.set(http::field::content_type, "text/plain; version=0.0.4; charset=utf-8");
      response_.body() = text_();
    }
    response_.prepare_payload();
    stream_.expires_after(kPatience);
    http::async_write(stream_, response_, [self = shared_from_this()](error_code error, size_t) {
      if (!error && self->response_.keep_alive()) self->read();
    });
  }

  beast::basic_stream<Local> stream_;
  const std::function<std::string()>& text_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
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

class Server {
 public:
  Server(asio::io_context& io, const std::string& path, const std::function<std::string()>& text)
      : acceptor_(io), retry_(io), path_(path), text_(text) {
    error_code error;
    remove_stale(io);
    acceptor_.open(Local(), error);
    if (!error) acceptor_.bind(Local::endpoint(path), error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) throw Failure(kExitFailure, "cannot listen on " + path + ": " + error.message());
    scrapers_max_ = scrapers_max(acceptor_.native_handle());
    accept();
  }
  ~Server() { ::unlink(path_.c_str()); }

 private:
  /// The socket of a server that died: nobody listens there any more. A file of another kind
  /// refuses connections, too, and stays.
  void remove_stale(asio::io_context& io) const {
    struct stat file {};
    if (::lstat(path_.c_str(), &file) != 0 || !S_ISSOCK(file.st_mode)) return;
    error_code error;
    Local::socket probe(io);
    probe.connect(Local::endpoint(path_), error);
    if (error == boost::system::errc::connection_refused) ::unlink(path_.c_str());
  }
  void accept() {
    acceptor_.async_accept([this](error_code error, Local::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (is_short(error)) return accept_later();
      if (error && error != asio::error::connection_aborted) {
        throw Failure(kExitFailure, path_ + ": " + error.message());
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
  void begin(Local::socket socket) {
    scrapers_.remove_if([](const auto& scraper) { return scraper.expired(); });
    if (scrapers_.size() >= scrapers_max_) hang_up_on_oldest();
    const auto scraper = std::make_shared<Scraper>(std::move(socket), text_);
    scrapers_.push_back(scraper);
    scraper->read();
  }
  void hang_up_on_oldest() {
    scrapers_.remove_if([](const auto& scraper) { return scraper.expired(); });
    if (scrapers_.empty()) return;
    if (const auto oldest = scrapers_.front().lock()) oldest->hang_up();
    scrapers_.pop_front();
  }

  Local::acceptor acceptor_;
  asio::steady_timer retry_;
  std::list<std::weak_ptr<Scraper>> scrapers_;  ///< in the order of their coming
  size_t scrapers_max_ = kScrapersMax;
  const std::string path_;
  const std::function<std::string()>& text_;
};

}  // namespace

void serve_on_unix_socket(const std::string& path, const std::function<std::string()>& text) {
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    throw Failure(kExitFailure, path + ": a socket's path has at most " +
                                    std::to_string(sizeof(sockaddr_un::sun_path) - 1) + " bytes");
  }
  asio::io_context io;
  asio::signal_set ends(io, SIGINT, SIGTERM);
  ends.async_wait([&io](error_code, int) { io.stop(); });
  const Server server(io, path, text);
  std::cerr << "serving /metrics at " << path << std::endl;
  io.run();
}

}  // namespace lyre::tools
