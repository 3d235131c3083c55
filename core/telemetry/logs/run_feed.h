// A training that windows attach to: its frames over TCP, as the lines of jsonl.h.
//
// The client begins with "moescope-attach 1 TOKEN\n". The server answers "moescope 1 RUNS\n" and then sends a line for
// each of the RUNS, every step so far (of a long training the newest ones) and each further one as it is taken; at the
// end of the training "moescope end WHY\n". A wrong token is answered with "refused: WHY\n". Nothing is encrypted: the
// token keeps other users of the machine out, not who listens on the network.
//
// Who has not given the token takes no place of one who has: strangers are bounded apart (kMaxUnauthenticated, the
// oldest goes when another one comes), and have kGreetingMs for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/telemetry/frame/frame.h"
#include "core/telemetry/history/history.h"

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
// characters that a greeting cannot hold (blanks, control characters, anything but ASCII).
void check_feed_token(const std::string& token);

class RunFeed {
 public:
  // Listens at once, in a thread of its own; port 0 takes any that is free. Throws std::runtime_error: with the
  // address, or as check_feed_token().
  RunFeed(const FeedAddress& address, std::string token, std::size_t backlog_bytes = std::size_t{256} << 20);
  ~RunFeed();  // without end(): "the training ended"
  FeedAddress address() const;
  bool is_loopback() const;  // only this machine can reach it

  // All runs before the first frame. Any thread; wait-free for all practical purposes: lines are made and sent by the
  // feed's own thread.
  void add_run(const RunInfo& info);
  void publish(std::shared_ptr<const TelemetryFrame> frame);
  // Tells who is attached, and waits a second at most until they have it.
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

  // Takes in what has come, after waiting `wait_ms` for it at most; how many steps. Throws std::runtime_error once
  // there is no more: why the training ended, that the connection broke, or that what came is no training.
  std::size_t read(int wait_ms);
  bool complete() const;  // every run has its first step
  const FeedAddress& address() const;
  std::vector<std::shared_ptr<History>> histories() const;  // that read() appends to

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moescope
