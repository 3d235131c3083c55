// A training that serves its frames, and windows that attach to it, over real sockets.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <thread>

#include "core/logs/run_feed.h"
#include "tests/support/sample_frames.h"

namespace moescope {
namespace {

constexpr const char* kToken = "0123456789abcdef";

std::string thrown(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

void expect_said(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

std::shared_ptr<const TelemetryFrame> frame_of(int step, std::mt19937& rng) {
  return std::make_shared<const TelemetryFrame>(sample_frame(step, {}, rng));
}

std::size_t read_until(AttachedRuns& attached, std::int64_t step) {
  std::size_t steps = 0;
  for (int idle = 0; idle < 200;) {  // goes on while data arrive: sanitizers make it slow
    const std::size_t got = attached.read(50);
    idle = got > 0 ? 0 : idle + 1;
    steps += got;
    if (attached.complete() && attached.histories().front()->steps().last >= step) break;
  }
  return steps;
}

// Returns a plain socket that is connected to a feed. FakeServer is the other side: it sends what a test wants.
int raw_connection(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  return fd;
}

class FakeServer {
 public:
  explicit FakeServer(std::string says) : says_(std::move(says)) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    socklen_t size = sizeof at;
    getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size);
    port_ = ntohs(at.sin_port);
    thread_ = std::thread([this] {
      const int fd = accept(listener_, nullptr, nullptr);
      char greeting[256];
      [[maybe_unused]] const ssize_t n = recv(fd, greeting, sizeof greeting, 0);
      send(fd, says_.data(), says_.size(), MSG_NOSIGNAL);
      close(fd);
    });
  }
  ~FakeServer() {
    thread_.join();
    close(listener_);
  }
  FeedAddress address() const { return {"127.0.0.1", port_}; }

 private:
  std::string says_;
  int listener_ = -1, port_ = 0;
  std::thread thread_;
};

TEST(RunFeed, AWindowGetsWhatWasAndWhatComes) {
  std::mt19937 rng(1);
  RunFeed feed({"127.0.0.1", 0}, kToken);
  feed.add_run(sample_info({}));
  std::vector<std::shared_ptr<const TelemetryFrame>> frames;
  const auto publish = [&](int step) {
    frames.push_back(frame_of(step, rng));
    feed.publish(frames.back());
  };
  for (int step = 0; step < 5; ++step) publish(step);
  AttachedRuns early(feed.address(), kToken);
  EXPECT_EQ(read_until(early, 4), 5u);
  for (int step = 5; step < 9; ++step) publish(step);
  EXPECT_EQ(read_until(early, 8), 4u);
  AttachedRuns late(feed.address(), kToken);
  EXPECT_EQ(read_until(late, 8), 9u);
  for (const AttachedRuns* attached : {&early, &late}) {
    const auto history = attached->histories().front();
    EXPECT_EQ(history->info().n_experts, sample_info({}).n_experts);
    EXPECT_EQ(history->steps(), (StepRange{0, 8}));
    EXPECT_EQ(history->frame_at(8)->routers[0].tokens_per_expert, frames[8]->routers[0].tokens_per_expert);
    EXPECT_EQ(history->frame_at(8)->routers[0].volume.copies_RR, frames[8]->routers[0].volume.copies_RR);
  }
  feed.end("the training ended after 9 steps");
  expect_said(thrown([&] { read_until(early, 99); }), "ended after 9 steps");
}

TEST(RunFeed, AWrongTokenIsRefused) {
  RunFeed feed({"127.0.0.1", 0}, kToken);
  feed.add_run(sample_info({}));
  for (const char* wrong : {"0123456789abcdeg", "0123456789abcde", "x"})
    expect_said(thrown([&] { AttachedRuns(feed.address(), wrong); }), "token");
  expect_said(thrown([&] { AttachedRuns(feed.address(), ""); }), "token");
  expect_said(thrown([&] { AttachedRuns(feed.address(), "two words"); }), "token");
  EXPECT_NO_THROW(AttachedRuns(feed.address(), kToken));
}

TEST(RunFeed, GarbageAndSilenceDoNotStopTheFeed) {
  std::mt19937 rng(2);
  RunFeed feed({"127.0.0.1", 0}, kToken);
  feed.add_run(sample_info({}));
  const int port = feed.address().port;
  const int silent = raw_connection(port), noisy = raw_connection(port), torn = raw_connection(port);
  const std::string noise(100000, '\xff');
  send(noisy, noise.data(), noise.size(), MSG_NOSIGNAL);
  send(torn, "moescope-att", 12, MSG_NOSIGNAL);
  close(torn);
  char answer[256] = {};
  EXPECT_GT(recv(noisy, answer, sizeof answer - 1, 0), 0);
  expect_said(answer, "refused");
  feed.publish(frame_of(0, rng));
  AttachedRuns attached(feed.address(), kToken);
  EXPECT_EQ(read_until(attached, 0), 1u);
  close(silent);
  close(noisy);
}

// Idle connections to a feed. A test chooses their number.
class Strangers {
 public:
  explicit Strangers(int port) : port_(port) {}
  ~Strangers() {
    for (const int fd : sockets_) close(fd);
  }
  void come(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) sockets_.push_back(raw_connection(port_));
  }
  // True if the feed has closed the i-th connection within `ms` milliseconds.
  bool is_gone(std::size_t i, int ms) const {
    pollfd wait{sockets_[i], POLLIN, 0};
    char byte;
    return poll(&wait, 1, ms) == 1 && recv(sockets_[i], &byte, 1, 0) == 0;
  }

 private:
  int port_;
  std::vector<int> sockets_;
};

TEST(RunFeed, IdleStrangersKeepNoWindowOut) {
  std::mt19937 rng(5);
  RunFeed feed({"127.0.0.1", 0}, kToken);
  feed.add_run(sample_info({}));
  feed.publish(frame_of(0, rng));
  Strangers strangers(feed.address().port);
  for (int round = 0; round < 5; ++round) {
    strangers.come(kMaxUnauthenticated);
    AttachedRuns attached(feed.address(), kToken);
    EXPECT_EQ(read_until(attached, 0), 1u);
  }
}

TEST(RunFeed, AFloodOfStrangersKeepsNoWindowOut) {
  RunFeed feed({"127.0.0.1", 0}, kToken);
  feed.add_run(sample_info({}));
  std::atomic<bool> over = false;
  std::thread flood([&] {
    while (!over) {
      Strangers strangers(feed.address().port);
      strangers.come(kMaxUnauthenticated / 2);
    }
  });
  for (int i = 0; i < 20; ++i) EXPECT_NO_THROW(AttachedRuns(feed.address(), kToken));
  over = true;
  flood.join();
}

TEST(RunFeed, TheOldestStrangersGoFirst) {
  RunFeed feed({"127.0.0.1", 0}, kToken);
  Strangers strangers(feed.address().port);
  strangers.come(kMaxUnauthenticated + 2);
  EXPECT_TRUE(strangers.is_gone(0, 1000));
  EXPECT_TRUE(strangers.is_gone(1, 1000));
  EXPECT_FALSE(strangers.is_gone(2, 0));
  EXPECT_FALSE(strangers.is_gone(kMaxUnauthenticated + 1, 0));
}

TEST(RunFeed, AStrangerHasSomeSecondsForTheToken) {
  const RunFeed feed({"127.0.0.1", 0}, kToken);
  Strangers strangers(feed.address().port);
  strangers.come(1);
  EXPECT_FALSE(strangers.is_gone(0, kGreetingMs / 2));
  EXPECT_TRUE(strangers.is_gone(0, kGreetingMs / 2 + 2000));
}

TEST(RunFeed, StrangersTakeNothingFromThoseWhoAreIn) {
  std::mt19937 rng(6);
  RunFeed feed({"127.0.0.1", 0}, kToken);
  feed.add_run(sample_info({}));
  std::vector<std::unique_ptr<AttachedRuns>> attached;
  for (std::size_t i = 0; i < kMaxAttached; ++i)
    attached.push_back(std::make_unique<AttachedRuns>(feed.address(), kToken));
  Strangers strangers(feed.address().port);
  strangers.come(2 * kMaxUnauthenticated);
  expect_said(thrown([&] { AttachedRuns(feed.address(), kToken); }), "16 windows are attached already");
  feed.publish(frame_of(0, rng));
  for (const auto& window : attached) EXPECT_EQ(read_until(*window, 0), 1u);
  attached.pop_back();  // frees its place
  for (int i = 0; i < 50 && !thrown([&] { AttachedRuns(feed.address(), kToken); }).empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(thrown([&] { AttachedRuns(feed.address(), kToken); }), "");
}

TEST(RunFeed, AWeakTokenIsRefusedAndNotRepeated) {
  for (const std::string weak : {"", "hunter2", "0123456789abcde"}) {
    const std::string said = thrown([&] { RunFeed({"127.0.0.1", 0}, weak); });
    expect_said(said, "MOESCOPE_TOKEN: has " + std::to_string(weak.size()) + " characters, expected at least 16");
    if (!weak.empty()) {
      EXPECT_EQ(said.find(weak), std::string::npos);
    }
  }
  for (const char* wrong : {"sixteen and more with blanks", "0123456789abcdef\n", "0123456789abcde\xc3\xa4"})
    expect_said(thrown([&] { check_feed_token(wrong); }), "ASCII characters without blanks");
  expect_said(thrown([&] { check_feed_token(std::string(129, 'x')); }), "at most 128");
  EXPECT_NO_THROW(check_feed_token(new_feed_token()));
  EXPECT_NO_THROW(check_feed_token(std::string(kMaxTokenLength, '~')));
  RunFeed feed({"127.0.0.1", 0}, std::string(kMaxTokenLength, '~'));
  feed.add_run(sample_info({}));
  EXPECT_NO_THROW(AttachedRuns(feed.address(), std::string(kMaxTokenLength, '~')));
}

TEST(RunFeed, KnowsWhetherOthersCanReachIt) {
  EXPECT_TRUE(RunFeed({"127.0.0.1", 0}, kToken).is_loopback());
  EXPECT_TRUE(RunFeed({"localhost", 0}, kToken).is_loopback());
  EXPECT_FALSE(RunFeed({"0.0.0.0", 0}, kToken).is_loopback());
}

TEST(RunFeed, AnAnswerThatIsNoneIsToldFromATraining) {
  for (const char* answer : {"HTTP/1.1 400 Bad Request\r\n\r\n", "moescope 1 \n", "moescope 1 0\n", "moescope 2 1\n"}) {
    const FakeServer server(answer);
    expect_said(thrown([&] { AttachedRuns(server.address(), kToken); }), "another program");
  }
  {
    const FakeServer server("");
    expect_said(thrown([&] { AttachedRuns(server.address(), kToken); }), "broke");
  }
  {
    const FakeServer server(std::string(5000, 'x'));
    expect_said(thrown([&] { AttachedRuns(server.address(), kToken); }), "another program");
  }
}

TEST(RunFeed, WhatComesAfterTheWelcomeMayBeAnything) {
  std::mt19937 rng(3);
  for (const char* rest : {"\xff\xfe\n", "{\"step\": \"x\"}\n", "[[[[[[\n",
                           "{\"step\":0,\"routers\":[{\"layer\":-7}]}\n", "{\"step\":0,\"wire\":{\"ranks\":4096}}\n"}) {
    const FakeServer server(std::string("moescope 1 1\n") + rest);
    AttachedRuns attached(server.address(), kToken);
    expect_said(thrown([&] { read_until(attached, 0); }), "not a training");
  }
  const FakeServer server("moescope 1 1\n{\"step\":0,");
  AttachedRuns attached(server.address(), kToken);
  expect_said(thrown([&] { read_until(attached, 0); }), "the connection broke");
}

// A window that does not read must not stop the training, and what is kept for it must not grow without end.
TEST(RunFeed, ASlowWindowLosesTheOldestSteps) {
  std::mt19937 rng(4);
  RunFeed feed({"127.0.0.1", 0}, kToken, 1 << 20);
  feed.add_run(sample_info({}));
  AttachedRuns slow(feed.address(), kToken);
  const auto start = std::chrono::steady_clock::now();
  const auto frame = sample_frame(0, {}, rng);
  for (int step = 0; step < 3000; ++step) {
    TelemetryFrame next = frame;
    next.step = step;
    feed.publish(std::make_shared<const TelemetryFrame>(std::move(next)));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  read_until(slow, 2999);
  EXPECT_EQ(slow.histories().front()->steps().last, 2999);
}

TEST(RunFeed, AddressesAreHostAndPort) {
  EXPECT_EQ(parse_feed_address("127.0.0.1:5000").text(), "127.0.0.1:5000");
  EXPECT_EQ(parse_feed_address("[::1]:80").host, "::1");
  EXPECT_EQ(parse_feed_address("[::1]:80").text(), "[::1]:80");
  for (const char* wrong : {"", ":", "host", "host:", ":5000", "host:0", "host:65536", "host:12x", "host:-1"})
    expect_said(thrown([&] { parse_feed_address(wrong); }), "HOST:PORT");
  const RunFeed feed({"127.0.0.1", 0}, kToken);
  expect_said(thrown([&] { RunFeed(feed.address(), kToken); }), "cannot listen there");
  expect_said(thrown([&] { RunFeed({"no such host.invalid", 5000}, kToken); }), "no such host");
  const int free_port = [] { return RunFeed({"127.0.0.1", 0}, kToken).address().port; }();
  expect_said(thrown([&] { AttachedRuns({"127.0.0.1", free_port}, kToken); }), "no program answers");
  EXPECT_EQ(new_feed_token().size(), 32u);
  EXPECT_NE(new_feed_token(), new_feed_token());
}

}  // namespace
}  // namespace moescope
