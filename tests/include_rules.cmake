# The arrows between the rooms, checked: core knows no Qt, core/telemetry nothing above itself, widgets only core/telemetry
# the number formats that its pictures explain, and the counts and models of clusters (pure functions of their arguments,
# of whose answers the cluster panels are made).
# An optional fourth argument names what the pattern hits but is allowed.
function(forbid room pattern why)
  file(GLOB_RECURSE files ${SOURCE_DIR}/${room}/*.h ${SOURCE_DIR}/${room}/*.cpp)
  if(NOT files)
    message(FATAL_ERROR "no sources found under ${room}: the rule checks nothing")
  endif()
  foreach(file ${files})
    file(STRINGS ${file} hits REGEX "^[ \t]*#[ \t]*include[ \t]+${pattern}")
    foreach(hit ${hits})
      if(ARGN AND hit MATCHES "${ARGN}")
        continue()
      endif()
      message(SEND_ERROR "${file}: ${hit}\n  ${why}")
    endforeach()
  endforeach()
endfunction()

forbid(core "<Q" "core knows no Qt")
forbid(core "\"(widgets|app)/" "core includes nothing above itself")
forbid(core/telemetry "\"core/(numerics|model|parallel|cluster|[a-z_]+\\.h)" "telemetry is the lowest room")
forbid(core/numerics "\"core/(model|parallel|cluster|[a-z_]+\\.h)" "numerics knows no model")
forbid(widgets "\"(app/|core/[^t]|core/t[^e])" "widgets may include core/telemetry, the number formats and the cluster models only"
       "\"core/(numerics/(float_formats|block_quantize|block_anatomy|what_if|operand_format)|parallel/(volumes|wire|placement|placement_choice|routing_patterns|load_routing)|cluster/[a-z_]+|assets|safetensors|captured_operand)\\.h\"")

# Readers of files that somebody else wrote: JSON and TOML go through the parsers that limit how deep they are nested, and
# files are opened by InputFile, which takes no pipe and no device. `ARGN`: the files that may do it themselves.
function(only_in pattern why)
  file(GLOB_RECURSE files ${SOURCE_DIR}/core/*.cpp ${SOURCE_DIR}/core/*.h ${SOURCE_DIR}/app/*.cpp ${SOURCE_DIR}/widgets/*.cpp)
  foreach(file ${files})
    file(STRINGS ${file} hits REGEX "${pattern}")
    get_filename_component(name ${file} NAME)
    if(hits AND NOT ";${ARGN};" MATCHES ";${name};")
      message(SEND_ERROR "${file}: ${hits}\n  ${why}")
    endif()
  endforeach()
endfunction()

only_in("[jJ]son::(parse|accept|sax_parse)\\(" "JSON is parsed by parse_json and parse_json_line" json_values.cpp safetensors.cpp)
only_in("toml::parse(_file)?\\(" "TOML is parsed by parse_toml" toml_text.cpp)
only_in("std::ifstream" "files are read by InputFile" text_dataset.cpp)
