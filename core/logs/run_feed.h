// Sends the frames of a training over TCP to attached windows, as the lines of jsonl.h.
//
// The client begins with "moescope-attach 1 TOKEN\n". The server answers "moescope 1 RUNS\n" and sends a line for each
// of the RUNS, then all earlier steps (only the newest ones if the training is long), then each new step. At the end of
// the training it sends "moescope end WHY\n". It answers a wrong token with "refused: WHY\n". Nothing is encrypted: the
// token keeps out other users of the machine, but not those who listen on the network.
//
// Clients that have not sent the token yet have a separate limit, kMaxUnauthenticated, so that they cannot use up the
// connections of the others. Beyond this limit, the oldest of them is dropped. Each has kGreetingMs to send the token.
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
  // Starts to listen, in its own thread; port 0 selects any free port. Throws std::runtime_error with the address if it
  // cannot listen there, or the error of check_feed_token().
  RunFeed(const FeedAddress& address, std::string token, std::size_t backlog_bytes = std::size_t{256} << 20);
  ~RunFeed();  // calls end("the training ended") if end() was not called
  FeedAddress address() const;
  bool is_loopback() const;  // true if it can be reached from this machine only

  // All runs must be added before the first frame. Both functions may be called from any thread and return almost
  // immediately, because the feed's own thread formats and sends the lines of the frames.
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

  // Reads the lines that have arrived, and waits at most `wait_ms` for the first; returns the number of new steps.
  // Throws std::runtime_error if the training ended (with its reason), the connection broke, or the other side is not a
  // training.
  std::size_t read(int wait_ms);
  bool complete() const;  // true if every run has its first step
  const FeedAddress& address() const;
  std::vector<std::shared_ptr<History>> histories() const;  // read() appends to them

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moescope
