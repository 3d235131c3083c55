// The one way in which this program writes a file at once: there whole, on the medium, or not there at all.
//
// What is written goes to a new file of an unpredictable name in the same folder, created exclusively, so that neither
// a file nor a link that somebody laid there is written through; at the end it is synced and takes the place of what
// had that name, whose permissions it keeps.
//
// A target that is a symbolic link is refused, not followed and not replaced: the person may not know where it leads.
// So are folders, devices, pipes and sockets. Folders on the way may be links.
#pragma once

#include <string>
#include <string_view>

namespace moescope {

// Why no file can take the place of `path`: "is a symbolic link to ...", "is a folder", ...; empty: nothing speaks
// against it, or nothing is there. Without the path.
std::string output_problem(const std::string& path);

// Every failure throws std::runtime_error "PATH: why".
class WholeFile {
 public:
  explicit WholeFile(const std::string& path);
  ~WholeFile();  // leaves nothing if not finished
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(std::string_view bytes);
  void finish();  // may fail as write() does: a full disk can show only now

 private:
  void flush();
  [[noreturn]] void fail() const;
  std::string path_, temporary_;
  std::string buffer_;
  int file_ = -1;
  bool finished_ = false;
};

void write_whole_file(const std::string& path, std::string_view bytes);

// For what is read while it grows: opens `path` for writing, made new or emptied, without following a link to a file.
// Pipes and devices are taken, by way of a link as well (/dev/stdout, a shell's >(command)). Throws as WholeFile; the
// descriptor is the caller's.
int open_growing_file(const std::string& path);

}  // namespace moescope
