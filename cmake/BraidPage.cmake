# Pages for a browser as strings in the library, so that the program needs no file at run time.

set(page ${PROJECT_SOURCE_DIR}/train/report/page)

# braid_page(NAMESPACE CONSTANT BODY STYLES… SCRIPTS…): `const char* const CONSTANT` is frame.html with the file
# BODY, and the files *.css and *.js, in place of @BRAID_PAGE_BODY@, @BRAID_PAGE_CSS@ and @BRAID_PAGE_JS@.
function(braid_page namespace constant body)
  set(BRAID_PAGE_NAMESPACE ${namespace})
  set(BRAID_PAGE_CONSTANT ${constant})
  file(READ ${body} BRAID_PAGE_BODY)
  foreach(file IN LISTS ARGN)
    file(READ ${file} text)
    if(file MATCHES "css$")
      string(APPEND BRAID_PAGE_CSS "${text}")
    else()
      string(APPEND BRAID_PAGE_JS "${text}\n")
    endif()
  endforeach()
  cmake_path(GET body STEM name)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page}/frame.html ${body} ${ARGN})
  configure_file(${page}/frame.html ${PROJECT_BINARY_DIR}/generated/${name}.html @ONLY)
  file(READ ${PROJECT_BINARY_DIR}/generated/${name}.html BRAID_PAGE)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/page_template.cpp.in ${PROJECT_BINARY_DIR}/generated/${name}_template.cpp @ONLY)
  target_sources(braid_train PRIVATE ${PROJECT_BINARY_DIR}/generated/${name}_template.cpp)
endfunction()

braid_page(braid::scheduler kPageTemplate ${page}/plan_page.html ${page}/plan_page.css ${page}/basics.js
           ${page}/curves.js ${page}/common.js ${page}/scaling.js ${page}/division.js ${page}/losses.js ${page}/gantt.js ${page}/graph.js
           ${page}/memory.js ${page}/tables.js ${page}/ready.js)
braid_page(braid kReportTemplate ${page}/report.html ${page}/plan_page.css ${page}/report.css ${page}/basics.js ${page}/curves.js
           ${page}/report.js)
