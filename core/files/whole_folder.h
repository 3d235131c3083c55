// Writes a folder as a whole: afterwards it is complete and on the disk, or the target is as it was before, even if the
// program is killed or the disk is full.
//
// The files go to the new folder PATH.partial, which is synced and then takes the place of PATH: both names are
// exchanged at once, or, where the file system cannot do this, PATH is renamed to PATH.replaced first. The replaced
// folder is removed at the end. A folder that holds a file of another name than this writer gives is refused, so that
// nothing else is lost.
#pragma once

#include <string>
#include <string_view>

namespace moescope {

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
