# Checkers run on the reference data in tests/golden; `path` is relative to that folder.
function(add_golden_test name checker path)
  add_test(NAME ${name} COMMAND ${checker} ${CMAKE_CURRENT_SOURCE_DIR}/golden/${path})
  set_tests_properties(${name} PROPERTIES LABELS golden TIMEOUT ${long_seconds})
endfunction()

add_golden_test(golden_mx golden_mx mx)
add_golden_test(golden_router2026 golden_router2026 router2026)
add_golden_test(golden_nvfp4 golden_nvfp4 nvfp4)
add_golden_test(golden_muon golden_muon muon)
foreach(set v3_256_ranks v3_64_ranks_round_robin 16b_16_ranks_skewed)
  add_golden_test(golden_volumes_${set} golden_volumes volumes/${set}.safetensors)
endforeach()
foreach(set tiny mid softmax_aux wide)
  add_golden_test(golden_model_${set} golden_model model/${set})
endforeach()
add_test(NAME golden_volumes_corrupt COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/golden/corrupt_volumes.py
  $<TARGET_FILE:golden_volumes> ${CMAKE_CURRENT_SOURCE_DIR}/golden/volumes/16b_16_ranks_skewed.safetensors)
set_tests_properties(golden_volumes_corrupt PROPERTIES LABELS golden TIMEOUT ${long_seconds})

# Checkpoints as transformers writes them, and what it computes from them: random weights of nine architectures, two
# quantized ones, and one that has been trained.
foreach(set tiny quantized trained)
  set(unpacked ${CMAKE_CURRENT_BINARY_DIR}/golden/checkpoints)
  file(MAKE_DIRECTORY ${unpacked})
  set(archive ${CMAKE_CURRENT_SOURCE_DIR}/golden/checkpoints/${set}.tar.xz)
  add_test(NAME unpack_checkpoints_${set} WORKING_DIRECTORY ${unpacked} COMMAND ${CMAKE_COMMAND} -E tar xf ${archive})
  set_tests_properties(unpack_checkpoints_${set} PROPERTIES LABELS golden FIXTURES_SETUP checkpoints_${set})
endforeach()
foreach(folder tiny/deepseek_v2 tiny/deepseek_v3 tiny/deepseek_v3_yarn tiny/gpt_oss tiny/granitemoe tiny/mixtral
        tiny/olmoe tiny/qwen2_moe tiny/qwen3_moe quantized/deepseek_v3_fp8 quantized/gpt_oss_mxfp4 trained/deepseek_v3)
  string(REGEX REPLACE "/.*" "" set ${folder})
  string(REPLACE / _ name ${folder})
  add_test(NAME golden_checkpoint_${name} COMMAND golden_checkpoint ${unpacked}/${folder})
  set_tests_properties(golden_checkpoint_${name} PROPERTIES LABELS golden TIMEOUT ${long_seconds}
                                                            FIXTURES_REQUIRED checkpoints_${set})
endforeach()

# The tokenizers are packed: they are alike. tests/golden/make_tokenizers.js makes them.
set(unpacked_tokenizers ${CMAKE_CURRENT_BINARY_DIR}/golden_tokenizers)
file(MAKE_DIRECTORY ${unpacked_tokenizers})
add_test(NAME unpack_tokenizers WORKING_DIRECTORY ${unpacked_tokenizers}
         COMMAND ${CMAKE_COMMAND} -E tar xf ${CMAKE_CURRENT_SOURCE_DIR}/golden/tokenizers.tar.xz)
set_tests_properties(unpack_tokenizers PROPERTIES LABELS golden FIXTURES_SETUP tokenizers)
add_test(NAME golden_tokenizer COMMAND golden_tokenizer ${unpacked_tokenizers})
set_tests_properties(golden_tokenizer PROPERTIES LABELS golden TIMEOUT ${long_seconds} FIXTURES_REQUIRED tokenizers)
