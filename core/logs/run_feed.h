// Serves a training to attached windows: its frames over TCP, as the lines of jsonl.h.
//
// The client begins with "moescope-attach 1 TOKEN\n". The server answers "moescope 1 RUNS\n" and then sends a line for
// each of the RUNS, every step so far (of a long training the newest ones) and each new step; at the end of the
// training "moescope end WHY\n". A wrong token is answered with "refused: WHY\n". Nothing is encrypted: the token keeps
// out other users of the machine, but nobody who listens on the network.
//
// Clients that have not given the token yet have a limit of their own, kMaxUnauthenticated, so that they cannot use up
// the connections of those that have. Beyond it the oldest is dropped, and each has kGreetingMs to give the token.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/frame/frame.h"
#include "core/history/history.h"

namespace moescope {

inline constexpr const char* kTokenVariable = "MOESCOPE_TOKEN";

struct FeedAddress {
  std::string host;
  int port = 0;
  std::string text() const;  // "127.0.0.1:5000", "[::1]:5000"
};
// Throws std::runtime_error: not HOST:PORT, or no port from 1 to 65535.
FeedAddress parse_feed_address(const std::string& text);

inline constexpr std::size_t kMinTokenLength = 16, kMaxTokenLength = 128;  // characters
inline constexpr std::size_t kMaxAttached = 16, kMaxUnauthenticated = 64;
inline constexpr int kGreetingMs = 3000;

// 128 random bits in hex.
std::string new_feed_token();
// Throws std::runtime_error, never with the token in it: too short to be safe from guessing, too long, or with
// characters that a greeting cannot contain (blanks, control characters, anything but ASCII).
void check_feed_token(const std::string& token);

class RunFeed {
 public:
  // Listens at once, in a thread of its own; port 0 takes any free port. Throws std::runtime_error: with the address,
  // or as check_feed_token().
  RunFeed(const FeedAddress& address, std::string token, std::size_t backlog_bytes = std::size_t{256} << 20);
  ~RunFeed();  // without end(): "the training ended"
  FeedAddress address() const;
  bool is_loopback() const;  // reachable from this machine only

  // Add all runs before the first frame. Any thread; practically wait-free: lines are formatted and sent by the feed's
  // own thread.
  void add_run(const RunInfo& info);
  void publish(std::shared_ptr<const TelemetryFrame> frame);
  // Tells the attached windows, and waits a second at most until they have received it.
  void end(const std::string& why);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class AttachedRuns {
 public:
  // Connects and gives the token, within some seconds. Throws std::runtime_error with the address: nobody answers,
  // another program does, the token is wrong.
  AttachedRuns(const FeedAddress& address, const std::string& token);
  ~AttachedRuns();

  // Reads what has arrived, waiting `wait_ms` at most; returns the number of new steps. Throws std::runtime_error at
  // the end: why the training ended, that the connection broke, or that the other side is not a training.
  std::size_t read(int wait_ms);
  bool complete() const;  // every run has its first step
  const FeedAddress& address() const;
  std::vector<std::shared_ptr<History>> histories() const;  // to which read() appends

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moescope
