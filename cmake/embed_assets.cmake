# Embeds text files of assets/ in the program, so that it needs no path at run time.
#   embed_assets(TARGET PATTERN...)  adds a generated source that defines moescope::assets() of core/io/assets.h
function(embed_assets target)
  list(TRANSFORM ARGN PREPEND ${CMAKE_SOURCE_DIR}/assets/)
  file(GLOB files CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/assets ${ARGN})
  set(entries "")
  foreach(name ${files})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/assets/${name})
    file(READ ${CMAKE_SOURCE_DIR}/assets/${name} text)
    string(APPEND entries "    {\"${name}\", R\"~~(${text})~~\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/embedded_assets.cpp @ONLY CONTENT [[
#include "core/io/assets.h"

namespace moescope {

std::span<const Asset> assets() {
  static const Asset kAssets[] = {
@entries@  };
  return kAssets;
}

}  // namespace moescope
]])
  target_sources(${target} PRIVATE ${CMAKE_BINARY_DIR}/embedded_assets.cpp)
endfunction()
