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
