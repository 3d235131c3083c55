// How this program writes a file in one go: afterwards it is complete and on the disk, or not there at all.
//
// The bytes go to a new file in the same folder that has no name, so that a program that is killed leaves none behind;
// where the file system has no such files, to one with an unpredictable name, created exclusively, so that no file or
// link that somebody placed there is written through. At the end it is synced and renamed over the file of that name,
// whose permissions it keeps.
//
// A target that is a symbolic link is refused, neither followed nor replaced: the user may not know where it leads. So
// are folders, devices, pipes and sockets. Folders along the path may be links.
#pragma once

#include <string>
#include <string_view>

namespace moescope {

// Why no file can be written at `path`, without the path: "is a symbolic link to ...", "is a folder", ...; empty: it
// can.
std::string output_problem(const std::string& path);

// Every failure throws std::runtime_error "PATH: why".
class WholeFile {
 public:
  explicit WholeFile(const std::string& path);
  ~WholeFile();  // removes what was written unless finish() was called
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(std::string_view bytes);
  void finish();  // may fail as write() does: a full disk may only be noticed now

 private:
  void open();
  void flush();
  void give_name();  // to a file that has none
  [[noreturn]] void fail() const;
  std::string path_, temporary_;  // empty: it has no name
  std::string buffer_;
  int file_ = -1;
  bool finished_ = false;
};

void write_whole_file(const std::string& path, std::string_view bytes);

// For output that is read while it grows: opens `path` for writing, created or truncated, without following a link to a
// file. Pipes and devices are accepted, through a link as well (/dev/stdout, a shell's >(command)). Throws as WholeFile
// does; the caller owns the descriptor.
int open_growing_file(const std::string& path);

}  // namespace moescope
