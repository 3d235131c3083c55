// Sends the frames of a training to attached windows: over TCP, as the lines of jsonl.h.
//
// The client begins with "moescope-attach 1 TOKEN\n". The server answers "moescope 1 RUNS\n", then sends a line for
// each of the RUNS, every step so far (the newest ones if the training is long) and each new step; at the end of the
// training it sends "moescope end WHY\n". It answers a wrong token with "refused: WHY\n". Nothing is encrypted: the
// token keeps out other users of the machine, but no one who listens on the network.
//
// Clients that have not sent the token yet have a separate limit, kMaxUnauthenticated, so that they cannot use up the
// connections of the others. Beyond it the oldest is dropped, and each has kGreetingMs to send the token.
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
// Throws std::runtime_error if `text` is not HOST:PORT with a port from 1 to 65535.
FeedAddress parse_feed_address(const std::string& text);

inline constexpr std::size_t kMinTokenLength = 16, kMaxTokenLength = 128;  // characters
inline constexpr std::size_t kMaxAttached = 16, kMaxUnauthenticated = 64;
inline constexpr int kGreetingMs = 3000;

// Returns 128 random bits in hex.
std::string new_feed_token();
// Throws std::runtime_error, never with the token in it, if the token is too short to be safe from guessing, too long,
// or has characters that a greeting cannot contain (blanks, control characters, anything but ASCII).
void check_feed_token(const std::string& token);

class RunFeed {
 public:
  // Listens at once, in its own thread; port 0 selects any free port. Throws std::runtime_error with the address, or
  // the error of check_feed_token().
  RunFeed(const FeedAddress& address, std::string token, std::size_t backlog_bytes = std::size_t{256} << 20);
  ~RunFeed();  // ends with "the training ended" if end() was not called
  FeedAddress address() const;
  bool is_loopback() const;  // reachable from this machine only

  // Add all runs before the first frame. Callable from any thread; practically wait-free, because the feed's own thread
  // formats and sends the lines.
  void add_run(const RunInfo& info);
  void publish(std::shared_ptr<const TelemetryFrame> frame);
  // Tells the attached windows why the training ended; waits up to one second until they have received it.
  void end(const std::string& why);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class AttachedRuns {
 public:
  // Connects and sends the token, within a few seconds. Throws std::runtime_error with the address if no program
  // answers, another program answers, or the token is wrong.
  AttachedRuns(const FeedAddress& address, const std::string& token);
  ~AttachedRuns();

  // Reads arrived lines, waits at most `wait_ms`; returns the number of new steps. Throws std::runtime_error at the
  // end: why the training ended, that the connection broke, or that the other side is not a training.
  std::size_t read(int wait_ms);
  bool complete() const;  // every run has its first step
  const FeedAddress& address() const;
  std::vector<std::shared_ptr<History>> histories() const;  // read() appends to them

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moescope
