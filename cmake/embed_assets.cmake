# Embeds text files of assets/ in the program, so that it needs no path at run time.
#   embed_assets(OUT_VARIABLE PATTERN...)  ->  a generated source that defines moescope::asset() of core/io/assets.h
function(embed_assets out)
  set(generated ${CMAKE_BINARY_DIR}/embedded_assets.cpp)
  set(entries "")
  foreach(pattern ${ARGN})
    file(GLOB files CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/assets ${CMAKE_SOURCE_DIR}/assets/${pattern})
    foreach(name ${files})
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/assets/${name})
      file(READ ${CMAKE_SOURCE_DIR}/assets/${name} text)
      string(APPEND entries "    {\"${name}\", R\"~~(${text})~~\"},\n")
    endforeach()
  endforeach()
  file(CONFIGURE OUTPUT ${generated} @ONLY CONTENT [[
#include "core/io/assets.h"

namespace moescope {

std::span<const Asset> assets() {
  static const Asset kAssets[] = {
@entries@  };
  return kAssets;
}

}  // namespace moescope
]])
  set(${out} ${generated} PARENT_SCOPE)
endfunction()
