// Writes a file as a whole: afterwards it is complete and on the disk, or the target is as it was before.
//
// The bytes go to a new file without a name in the same folder, so that a killed program leaves no file behind. Where
// the file system does not support such files, they go to a file with an unpredictable name, created exclusively, so
// that no existing file or link is written through. At the end the file is synced and renamed to the target, whose
// permissions it keeps.
//
// A target that is a symbolic link is refused, neither followed nor replaced, because the user may not know where it
// leads. Folders, devices, pipes and sockets are refused as well. Folders along the path may be links.
#pragma once

#include <string>
#include <string_view>

namespace moescope {

// Returns why no file can be written at `path`, without the path: "is a symbolic link to ...", "is a folder", ...;
// empty if a file can be written.
std::string output_problem(const std::string& path);

// Writes all bytes to an open file. Returns false and sets errno if writing fails.
bool write_all(int file, std::string_view bytes);

// Every member throws std::runtime_error "PATH: why" if it fails.
class WholeFile {
 public:
  explicit WholeFile(const std::string& path);
  ~WholeFile();  // removes what was written unless finish() was called
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(std::string_view bytes);
  void finish();  // may fail as write() does: a full disk may be noticed only here

 private:
  void open();
  void flush();
  void give_name();  // if the file has no name yet
  [[noreturn]] void fail() const;
  std::string path_, temporary_;  // `temporary_` is empty while the file has no name
  std::string buffer_;
  int file_ = -1;
  bool finished_ = false;
};

void write_whole_file(const std::string& path, std::string_view bytes);

// Opens a file that is read while it grows. Creates or truncates `path` without following a link to a file. Pipes and
// devices are accepted, also through a link (/dev/stdout, a shell's >(command)). Throws std::runtime_error "PATH: why";
// the caller owns the descriptor.
int open_growing_file(const std::string& path);

// The temporary names that WholeFile gives where the file system has no files without a name.
inline constexpr const char *kTemporaryBegin = ".moescope-", *kTemporaryEnd = ".tmp";
inline bool is_temporary_name(std::string_view name) {
  return name.starts_with(kTemporaryBegin) && name.ends_with(kTemporaryEnd);
}

// Syncs the bytes of a file, or the names in a folder. Throws std::runtime_error "PATH: why".
void sync_to_disk(const std::string& path);

// Writes a folder as a whole: afterwards it is complete and on the disk, or the target is as it was before, even if the
// program is killed or the disk is full.
//
// The files go to the new folder PATH.partial, which is synced and then takes the place of PATH: both names are
// exchanged at once, or, where the file system cannot do this, PATH is renamed to PATH.replaced first. The replaced
// folder is removed at the end. A folder that holds a file of another name than this writer gives is refused, so that
// nothing else is lost.

// True for the names that a writer gives to the files of its folder.
using OwnName = bool (*)(std::string_view name);

// Every member throws std::runtime_error "PATH: why" if it fails.
class WholeFolder {
 public:
  // Completes what an earlier program left at `path`, and makes PATH.partial. Nothing at `path` changes.
  WholeFolder(const std::string& path, OwnName is_own);
  ~WholeFolder();  // removes what was written unless finish() was called
  WholeFolder(const WholeFolder&) = delete;
  WholeFolder& operator=(const WholeFolder&) = delete;

  std::string file(const std::string& name) const;  // path at which to write the file of this name
  // The new folder, and files of it that replace others, keep the permissions of what they replace.
  void finish();

 private:
  void swap();
  std::string path_, partial_, replaced_;
  OwnName is_own_;
  bool finished_ = false;
};

// Returns the path of the complete folder: `path`, or where it is if the program was killed while it renamed.
std::string whole_folder_at(const std::string& path);

// Removes the folder's own files, and the folder if no others are left.
void remove_own_files(const std::string& folder, OwnName is_own);

}  // namespace moescope
