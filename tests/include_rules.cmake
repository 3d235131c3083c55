# Checks the includes between rooms: no file may include a file of a room above its own or on the same floor.
cmake_policy(VERSION 3.25)

# Floors, lowest first. Rooms of one floor may not include each other. A room is a folder of core/ with its
# subfolders; a file may always include files of its own room.
set(CORE_FLOORS
    core/numerics
    core/files
    core/frame
    "core/config core/cluster"
    "core/model core/recording"
    "core/checkpoints core/findings core/logs"
    core/training
    core/lessons)
set(WIDGETS_FLOORS
    widgets/look
    widgets/selection
    widgets/plots
    widgets/panel
    "widgets/compare widgets/router widgets/microscaling widgets/text widgets/all_to_all widgets/cluster widgets/overview")
set(APP_FLOORS
    app/session
    app/look
    app/workspaces
    app/setup
    "app/bars app/docks"
    app/actions
    "app/lessons app/export"
    app/start
    app/help
    app/window
    app/program
    app)
set(CLI_FLOORS app/cli)

set(included_pattern "^[ \t]*#[ \t]*include[ \t]+\"((core|widgets|app)/[a-z_0-9/.]*)\"")

# Sets `result` to whether `path` is in one of the rooms in ARGN.
function(is_in_rooms path result)
  set(${result} NO PARENT_SCOPE)
  foreach(room ${ARGN})
    string(FIND "${path}/" "${room}/" at)
    if(at EQUAL 0)
      set(${result} YES PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

# Checks the floors in ARGN. `below`: regular expression of paths that all of them may include.
function(check_floors below)
  set(lower "")
  foreach(floor ${ARGN})
    separate_arguments(floor)
    foreach(room ${floor})
      file(GLOB_RECURSE files ${SOURCE_DIR}/${room}/*.h ${SOURCE_DIR}/${room}/*.cpp)
      if(NOT files)
        message(FATAL_ERROR "no sources found under ${room}: the rule checks nothing")
      endif()
      foreach(file ${files})
        file(STRINGS ${file} hits REGEX "${included_pattern}")
        foreach(hit ${hits})
          string(REGEX MATCH "${included_pattern}" hit "${hit}")
          set(included ${CMAKE_MATCH_1})
          is_in_rooms(${included} allowed ${room} ${lower})
          if(NOT allowed AND NOT "${included}" MATCHES "^(${below})")
            message(SEND_ERROR "${file}: includes ${included} of a room above its own or on the same floor")
          endif()
        endforeach()
      endforeach()
    endforeach()
    list(APPEND lower ${floor})
  endforeach()
endfunction()

# Checks that every folder of code is on a floor and has at most 40 files.
function(check_folders)
  set(known ${CORE_FLOORS} ${WIDGETS_FLOORS} ${APP_FLOORS} ${CLI_FLOORS})
  string(REPLACE " " ";" known "${known}")
  file(GLOB_RECURSE files RELATIVE ${SOURCE_DIR} ${SOURCE_DIR}/core/*.h ${SOURCE_DIR}/core/*.cpp ${SOURCE_DIR}/widgets/*.h
       ${SOURCE_DIR}/widgets/*.cpp ${SOURCE_DIR}/app/*.h ${SOURCE_DIR}/app/*.cpp)
  set(counted "")
  foreach(file ${files})
    get_filename_component(folder ${file} DIRECTORY)
    is_in_rooms(${folder} allowed ${known})
    if(NOT allowed)
      message(SEND_ERROR "${file}: ${folder} is not on a floor: add it to one in tests/include_rules.cmake")
    endif()
    string(MAKE_C_IDENTIFIER ${folder} id)
    math(EXPR n_${id} "0${n_${id}} + 1")
    if(n_${id} EQUAL 41)
      message(SEND_ERROR "${folder} has more than 40 files: split it by subject")
    endif()
  endforeach()
endfunction()

# Checks that headers do not define two classes of one name: the linker would take their functions for the same.
function(check_class_names)
  file(GLOB_RECURSE headers RELATIVE ${SOURCE_DIR} ${SOURCE_DIR}/core/*.h ${SOURCE_DIR}/widgets/*.h ${SOURCE_DIR}/app/*.h)
  foreach(header ${headers})
    file(STRINGS ${SOURCE_DIR}/${header} hits REGEX "^(class|struct) [A-Za-z0-9_]+( final)?( : .*)? {")
    foreach(hit ${hits})
      string(REGEX REPLACE "^[a-z]+ ([A-Za-z0-9_]+).*" "\\1" name "${hit}")
      if(DEFINED header_of_${name})
        message(SEND_ERROR "${header}: a class ${name} is also in ${header_of_${name}}: rename one of them")
      endif()
      set(header_of_${name} ${header})
    endforeach()
  endforeach()
endfunction()

# Headers of core that widgets may include. Besides the rooms that they show, these are number formats, indices, files of tensors, and
# the counts and models of clusters (pure functions, whose results the cluster panels show); from config and lessons only the
# names of settings and the lesson for a figure.
set(SHOWN_BY_WIDGETS
    "core/(files|frame|recording|findings|logs|cluster)/|core/config/(config_field|placement_choice|run_config|run_settings)\\.h|core/lessons/lesson\\.h|core/model/(layers/operand_tap|moe/expert_placement|non_finite)\\.h|core/numerics/(processor|block_quantize|block_anatomy|number_format|what_if|quantize|index)\\.h")
check_folders()
check_class_names()
check_floors("^$" ${CORE_FLOORS})
check_floors("${SHOWN_BY_WIDGETS}" ${WIDGETS_FLOORS})
check_floors("core/|widgets/" ${APP_FLOORS})
check_floors("core/|app/program/program_start\\.h$" ${CLI_FLOORS})

# Reports `why` for files with a line that matches `pattern`, except the files in ARGN.
function(only_in folders pattern why)
  set(files "")
  foreach(folder ${folders})
    file(GLOB_RECURSE found ${SOURCE_DIR}/${folder}/*.cpp ${SOURCE_DIR}/${folder}/*.h)
    list(APPEND files ${found})
  endforeach()
  foreach(file ${files})
    file(STRINGS ${file} hits REGEX "${pattern}")
    get_filename_component(name ${file} NAME)
    if(hits AND NOT ";${ARGN};" MATCHES ";${name};")
      message(SEND_ERROR "${file}: ${hits}\n  ${why}")
    endif()
  endforeach()
endfunction()

only_in("core;app/cli" "^[ \t]*#[ \t]*include[ \t]+<Q" "core and the command line do not use Qt")
# Readers of untrusted files parse JSON and TOML with the parsers that limit nesting, and open files with InputFile, which
# refuses pipes and devices.
only_in("core;app;widgets" "[jJ]son::(parse|accept|sax_parse)\\(" "JSON is parsed by parse_json and JsonLines"
        json_text.cpp safetensors.cpp)
only_in("core;app;widgets" "simdjson::(dom|ondemand)::parser" "lines of JSON are parsed by JsonLines" json_line.h)
only_in("core;app;widgets" "toml::parse(_file)?\\(" "TOML is parsed by parse_toml" toml_section.cpp)
only_in("core;app;widgets" "include <csv\\.h>" "CSV is parsed by CsvRows" csv_rows.cpp)
only_in("core;app;widgets" "std::ifstream" "files are read by InputFile" text_dataset.cpp)
only_in("core;app;widgets" "std::from_chars\\(" "numbers are read by read_number(), as LLVM's from_chars() reads whole ones only"
        words.h words.cpp pattern.cpp decoder.cpp non_finite.cpp placement_choice.cpp gradient_reference.cpp
        text_sources.cpp json_line.cpp text_escape.cpp code_scales.cpp tag_map.cpp json_record.cpp
        import_te_statistics.cpp text_log.cpp count_names.cpp interventions.cpp)

# Every colour and font size is defined in widgets/look/tokens.
set(six "[0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F]")
only_in("widgets;app" "(0x|0xff|\"#|: ?#)${six}([^0-9a-fA-F]|$)" "colours come from widgets/look/tokens.h" tokens.cpp tokens.h )
only_in("widgets;app" "Qt::(white|black|red|green|blue|cyan|magenta|yellow|gray|darkGray|lightGray)"
        "colours come from widgets/look/tokens.h")
only_in("widgets;app" "QColor\\([0-9]" "colours come from widgets/look/tokens.h")
only_in("widgets;app" "set(Pixel|Point)SizeF?\\(" "font sizes come from widgets/look/tokens.h" tokens.cpp)
