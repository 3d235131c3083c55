#include "core/logs/run_feed.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/logs/lines/import_jsonl.h"
#include "core/logs/lines/jsonl.h"

namespace moescope {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLongestGreeting = 256;
constexpr int kConnectMs = 5000, kEndMs = 1000;
constexpr std::string_view kHello = "moescope-attach 1 ", kWelcome = "moescope 1 ", kEnd = "moescope end ";

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

struct Resolved {
  addrinfo* list = nullptr;
  explicit Resolved(const FeedAddress& address, bool to_listen) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0);
    // getaddrinfo() does not know localhost on a minimal system without /etc/hosts.
    const std::string host = address.host == "localhost" ? "127.0.0.1" : address.host;
    const int code = getaddrinfo(host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
    if (code != 0) throw std::runtime_error(address.text() + ": " + gai_strerror(code));
  }
  ~Resolved() {
    if (list) freeaddrinfo(list);
  }
  Resolved(const Resolved&) = delete;
};

void make_non_blocking(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

Descriptor listen_at(const FeedAddress& address) {
  const Resolved resolved(address, true);
  int why = EADDRNOTAVAIL;
  for (const addrinfo* each = resolved.list; each; each = each->ai_next) {
    Descriptor listener(socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol));
    const int on = 1;
    if (listener) setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (listener && bind(listener.get(), each->ai_addr, each->ai_addrlen) == 0 &&
        listen(listener.get(), SOMAXCONN) == 0) {
      make_non_blocking(listener.get());
      return listener;
    }
    why = errno;
  }
  throw std::runtime_error(address.text() + ": cannot listen there: " + std::strerror(why));
}

int port_of(int fd) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size);
  const auto port = name.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&name)->sin6_port
                                               : reinterpret_cast<const sockaddr_in*>(&name)->sin_port;
  return ntohs(port);
}

bool is_loopback_address(int fd) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size);
  if (name.ss_family == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&name)->sin6_addr);
  return ntohl(reinterpret_cast<const sockaddr_in*>(&name)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

// Compares in constant time.
bool is_same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace

std::string FeedAddress::text() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return (is_v6 ? '[' + host + ']' : host) + ':' + std::to_string(port);
}

FeedAddress parse_feed_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  FeedAddress address;
  address.host = text.substr(0, colon);
  if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']')
    address.host = address.host.substr(1, address.host.size() - 2);
  const char* first = text.data() + std::min(colon, text.size() - 1) + 1;
  const char* last = text.data() + text.size();
  if (text.empty() || colon == std::string::npos || address.host.empty() ||
      std::from_chars(first, last, address.port).ptr != last || address.port < 1 || address.port > 65535)
    throw std::runtime_error("'" + text + "' is not an address; expected HOST:PORT, such as 127.0.0.1:5000");
  return address;
}

std::string new_feed_token() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 4; ++i) {
    char part[9];
    std::snprintf(part, sizeof part, "%08x", static_cast<unsigned>(random()));
    token += part;
  }
  return token;
}

void check_feed_token(const std::string& token) {
  const std::string counted = std::string(kTokenVariable) + ": has " + std::to_string(token.size()) + " characters, ";
  if (token.size() < kMinTokenLength)
    throw std::runtime_error(counted + "expected at least " + std::to_string(kMinTokenLength) +
                             "; if it is not set, a safe one is made and printed");
  if (token.size() > kMaxTokenLength)
    throw std::runtime_error(counted + "expected at most " + std::to_string(kMaxTokenLength));
  if (!std::ranges::all_of(token, [](char c) { return c > ' ' && c < 127; }))
    throw std::runtime_error(std::string(kTokenVariable) + ": expected ASCII characters without blanks");
}

// ---- server: the training ----

struct RunFeed::State {
  struct Client {
    Descriptor socket;
    Clock::time_point since = Clock::now();
    std::string received;  // part of the greeting
    bool authenticated = false;
    std::string own;         // text for this client alone, sent before the lines
    std::uint64_t line = 0;  // number of the next line
    std::size_t sent = 0;    // bytes already sent of `line`, or of `own`
    bool closing = false;    // close the connection when `own` is sent
  };

  std::string token;
  FeedAddress at;
  std::size_t backlog_bytes;
  Descriptor listener, wake;
  std::mutex mutex;  // protects the members up to `ended`
  std::vector<std::string> infos;
  std::deque<std::shared_ptr<const TelemetryFrame>> frames;  // frames that are not formatted as lines yet
  std::string why;                                           // why the training ended
  bool ended = false;

  // Members below are used by the feed's thread only.
  std::vector<Client> clients;
  std::deque<std::string> lines;
  std::uint64_t first_line = 0;
  std::size_t bytes = 0;
  Clock::time_point ended_at;
  bool end_is_line = false;
  bool more = false;  // frames are left for the next round
  std::thread thread;

  void wake_thread() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake.get(), &one, sizeof one);
  }
  void clear_wake() const {
    std::uint64_t count;
    [[maybe_unused]] const ssize_t n = read(wake.get(), &count, sizeof count);
  }
  void serve();
  bool queue_new_lines();  // false after the end, when all clients have received it or their time is over
  void add_line(std::string line);
  void accept_clients();
  void drop_oldest_unauthenticated();
  void receive(Client& client);
  void answer_greeting(Client& client);
  void send_some(Client& client);
  bool has_unsent(const Client& client) const;
};

void RunFeed::State::add_line(std::string line) {
  bytes += line.size();
  lines.push_back(std::move(line));
  for (; bytes > backlog_bytes && lines.size() > 1; ++first_line) {
    for (Client& client : clients) {  // the client still gets the rest of a partly sent line
      if (client.line != first_line || client.sent == 0 || !client.own.empty()) continue;
      client.own = lines.front().substr(std::exchange(client.sent, 0));
      ++client.line;
    }
    bytes -= lines.front().size();
    lines.pop_front();
  }
}

bool RunFeed::State::queue_new_lines() {
  // Each round formats a limited number of lines, because clients wait meanwhile.
  constexpr std::size_t kLinesAtOnce = 32;
  std::vector<std::shared_ptr<const TelemetryFrame>> news;
  bool over;
  {
    const std::lock_guard lock(mutex);
    const auto end = frames.begin() + static_cast<std::ptrdiff_t>(std::min(frames.size(), kLinesAtOnce));
    news.assign(frames.begin(), end);
    frames.erase(frames.begin(), end);
    more = !frames.empty();
    over = ended && !more;
  }
  for (const auto& frame : news) add_line(to_json_line(*frame) + '\n');
  if (!over) return true;
  if (!std::exchange(end_is_line, true)) {
    add_line(std::string(kEnd) + why + '\n');
    ended_at = Clock::now();
  }
  for (Client& client : clients) send_some(client);
  const bool unsent = std::any_of(clients.begin(), clients.end(), [this](const Client& c) { return has_unsent(c); });
  return unsent && Clock::now() - ended_at < std::chrono::milliseconds(kEndMs);
}

bool RunFeed::State::has_unsent(const Client& client) const {
  return client.socket && (!client.own.empty() || (client.authenticated && client.line < first_line + lines.size()));
}

// Clients are in order of arrival, so the first one without authentication is the oldest.
void RunFeed::State::drop_oldest_unauthenticated() {
  const auto unauthenticated =
      std::ranges::count_if(clients, [](const Client& client) { return !client.authenticated; });
  if (static_cast<std::size_t>(unauthenticated) < kMaxUnauthenticated) return;
  clients.erase(std::ranges::find_if(clients, [](const Client& client) { return !client.authenticated; }));
}

// Accepts several clients per round: the system's queue is short, and flooding it must not keep others out.
void RunFeed::State::accept_clients() {
  for (std::size_t n = 0; n < kMaxUnauthenticated; ++n) {
    Descriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) return;
    const int on = 1;
    setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    drop_oldest_unauthenticated();
    Client& client = clients.emplace_back();
    client.socket = std::move(socket);
    receive(client);  // the greeting of a window has usually arrived by now
  }
}

void RunFeed::State::answer_greeting(Client& client) {
  const std::size_t end = client.received.find('\n');
  std::string_view line = std::string_view(client.received).substr(0, end);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (!line.starts_with(kHello)) {
    client.own = "refused: this is a MoEScope training, which begins with '" + std::string(kHello) + "TOKEN'\n";
    client.closing = true;
    return;
  }
  if (!is_same(line.substr(kHello.size()), token)) {
    client.own = "refused: wrong token for this training\n";
    client.closing = true;
    return;
  }
  const auto attached = std::ranges::count_if(clients, [](const Client& other) { return other.authenticated; });
  if (static_cast<std::size_t>(attached) >= kMaxAttached) {
    client.own = "refused: " + std::to_string(kMaxAttached) + " windows are attached already, which is the limit\n";
    client.closing = true;
    return;
  }
  client.authenticated = true;
  client.line = first_line;
  const std::lock_guard lock(mutex);
  client.own = std::string(kWelcome) + std::to_string(infos.size()) + '\n';
  for (const std::string& info : infos) client.own += info;
}

void RunFeed::State::receive(Client& client) {
  char buffer[512];
  const ssize_t n = recv(client.socket.get(), buffer, sizeof buffer, 0);
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
    client.socket = Descriptor();
    return;
  }
  if (n < 0 || client.authenticated || client.closing) return;  // bytes after the greeting are ignored
  client.received.append(buffer, static_cast<std::size_t>(n));
  if (client.received.find('\n') != std::string::npos || client.received.size() > kLongestGreeting)
    answer_greeting(client);
}

void RunFeed::State::send_some(Client& client) {
  while (has_unsent(client)) {
    const bool own = !client.own.empty();
    client.line = std::max(client.line, first_line);  // a client too slow for the backlog skips dropped lines
    const std::string& text = own ? client.own : lines[static_cast<std::size_t>(client.line - first_line)];
    const ssize_t n = send(client.socket.get(), text.data() + client.sent, text.size() - client.sent, MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n < 0) {
      client.socket = Descriptor();
      return;
    }
    client.sent += static_cast<std::size_t>(n);
    if (client.sent < text.size()) continue;
    client.sent = 0;
    if (own)
      client.own.clear();
    else
      ++client.line;
  }
  if (client.closing && client.own.empty()) client.socket = Descriptor();
}

void RunFeed::State::serve() {
  while (queue_new_lines()) {
    std::vector<pollfd> waits{{wake.get(), POLLIN, 0}, {listener.get(), POLLIN, 0}};
    for (const Client& client : clients)
      waits.push_back({client.socket.get(), static_cast<short>(POLLIN | (has_unsent(client) ? POLLOUT : 0)), 0});
    poll(waits.data(), waits.size(), more ? 0 : end_is_line ? 20 : 1000);
    if (waits[0].revents) clear_wake();
    for (std::size_t i = 0; i < clients.size(); ++i) {
      Client& client = clients[i];
      if (waits[i + 2].revents & (POLLIN | POLLHUP | POLLERR)) receive(client);
      if (client.socket) send_some(client);
      const bool late = !client.authenticated && Clock::now() - client.since > std::chrono::milliseconds(kGreetingMs);
      if (late) client.socket = Descriptor();
    }
    std::erase_if(clients, [](const Client& client) { return !client.socket; });
    if (waits[1].revents) accept_clients();
  }
}

RunFeed::RunFeed(const FeedAddress& address, std::string token, std::size_t backlog_bytes)
    : state_(std::make_unique<State>()) {
  check_feed_token(token);
  state_->token = std::move(token);
  state_->backlog_bytes = backlog_bytes;
  state_->listener = listen_at(address);
  state_->at = {address.host, port_of(state_->listener.get())};
  state_->wake = Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!state_->wake) throw std::runtime_error(std::string("eventfd: ") + std::strerror(errno));
  state_->thread = std::thread([state = state_.get()] { state->serve(); });
}

RunFeed::~RunFeed() {
  end("the training ended");
}

FeedAddress RunFeed::address() const {
  return state_->at;
}

bool RunFeed::is_loopback() const {
  return is_loopback_address(state_->listener.get());
}

void RunFeed::add_run(const RunInfo& info) {
  const std::lock_guard lock(state_->mutex);
  state_->infos.push_back(to_json_line(info) + '\n');
}

void RunFeed::publish(std::shared_ptr<const TelemetryFrame> frame) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->frames.push_back(std::move(frame));
  }
  state_->wake_thread();
}

void RunFeed::end(const std::string& why) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->ended) return;
    state_->ended = true;
    state_->why = why;
  }
  state_->wake_thread();
  state_->thread.join();
}

// ---- client: the window ----

namespace {

// Returns a connected socket. Waits at most kConnectMs for each address of the host; throws std::runtime_error with the
// last error if none answers.
Descriptor connect_to(const FeedAddress& address) {
  const Resolved resolved(address, false);
  int why = ECONNREFUSED;
  for (const addrinfo* each = resolved.list; each; each = each->ai_next) {
    Descriptor socket_(socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, each->ai_protocol));
    if (!socket_) continue;
    if (connect(socket_.get(), each->ai_addr, each->ai_addrlen) != 0 && errno != EINPROGRESS) {
      why = errno;
      continue;
    }
    pollfd wait{socket_.get(), POLLOUT, 0};
    if (poll(&wait, 1, kConnectMs) <= 0) {
      why = ETIMEDOUT;
      continue;
    }
    socklen_t size = sizeof why;
    getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &why, &size);
    if (why == 0) return socket_;
  }
  throw std::runtime_error(address.text() + ": no program answers: " + std::strerror(why));
}

}  // namespace

struct AttachedRuns::State {
  FeedAddress address;
  Descriptor socket;
  LogReader log;
  std::string part;          // incomplete line
  std::size_t searched = 0;  // bytes of `part` without a line end
  std::size_t runs = 0;

  State(const FeedAddress& at) : address(at), socket(connect_to(at)), log("attached to " + at.text()) {}

  [[noreturn]] void fail(const std::string& why) const { throw std::runtime_error(address.text() + ": " + why); }
  // Returns false if no bytes arrived within `wait_ms`.
  bool receive(int wait_ms) {
    pollfd wait{socket.get(), POLLIN, 0};
    if (poll(&wait, 1, wait_ms) <= 0) return false;
    char buffer[65536];
    const ssize_t n = recv(socket.get(), buffer, sizeof buffer, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (n <= 0)
      fail(std::string("the connection broke") + (n < 0 ? std::string(": ") + std::strerror(errno) : std::string()) +
           "; the steps received so far stay on the screen");
    part.append(buffer, static_cast<std::size_t>(n));
    return true;
  }
  void answer_greeting(const std::string& token);
  void take_line(std::string_view line);
};

void AttachedRuns::State::answer_greeting(const std::string& token) {
  const std::string hello = std::string(kHello) + token + '\n';
  if (send(socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(hello.size()))
    fail(std::string("the connection broke: ") + std::strerror(errno));
  const auto until = Clock::now() + std::chrono::milliseconds(kConnectMs);
  while (part.find('\n') == std::string::npos) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) fail("does not answer; is it a training with --serve?");
    receive(static_cast<int>(left));
    if (part.size() > kLongestGreeting && part.find('\n') > kLongestGreeting) break;
  }
  const std::size_t end = part.find('\n');
  const std::string line = part.substr(0, std::min(end, kLongestGreeting));
  if (line.starts_with("refused: ")) fail(line);
  const char* first = line.data() + kWelcome.size();
  if (!line.starts_with(kWelcome) || end == std::string::npos ||
      std::from_chars(first, line.data() + line.size(), runs).ec != std::errc() || runs < 1 || runs > 64)
    fail("another program answers, not a training with --serve");
  part.erase(0, end + 1);
}

void AttachedRuns::State::take_line(std::string_view line) {
  if (line.empty()) return;
  if (line.starts_with(kEnd)) fail(std::string(line.substr(kEnd.size(), 400)));
  log.read_line(line);
  if (log.bad().count() > 0)
    fail("sends something that is not a training (" + log.bad().first().front().why +
         "); the steps received so far stay on the screen");
}

AttachedRuns::AttachedRuns(const FeedAddress& address, const std::string& token)
    : state_(std::make_unique<State>(address)) {
  if (token.empty() || token.find_first_of(" \r\n") != std::string::npos)
    state_->fail("needs the token that the training printed");
  state_->answer_greeting(token);
}
AttachedRuns::~AttachedRuns() = default;

std::size_t AttachedRuns::read(int wait_ms) {
  State& s = *state_;
  const std::int64_t before = s.log.steps();
  const auto take_lines = [&s] {
    std::size_t begin = 0;
    for (std::size_t end; (end = s.part.find('\n', std::max(begin, s.searched))) != std::string::npos;
         begin = end + 1) {
      const std::string line = s.part.substr(begin, end - begin);
      s.take_line(line);
    }
    s.part.erase(0, begin);
    s.searched = s.part.size();  // a long line arrives in pieces
    if (s.part.size() > LineSplitter::kLongestLine) s.fail("sends a line that does not end");
  };
  take_lines();
  const auto until = Clock::now() + std::chrono::milliseconds(std::max(wait_ms, 50));
  for (int wait = wait_ms; s.receive(wait); wait = 0) {
    take_lines();
    if (Clock::now() > until) break;
  }
  return static_cast<std::size_t>(s.log.steps() - before);
}

bool AttachedRuns::complete() const {
  return state_->log.histories().size() == state_->runs;
}

const FeedAddress& AttachedRuns::address() const {
  return state_->address;
}

std::vector<std::shared_ptr<History>> AttachedRuns::histories() const {
  return state_->log.histories();
}

}  // namespace moescope
