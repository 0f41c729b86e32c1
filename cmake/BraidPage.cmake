# scheduler/page/ as a string in braid_scheduler, so that the program needs no file at run time.

set(page ${PROJECT_SOURCE_DIR}/scheduler/page)
set(parts ${page}/plan_page.html ${page}/plan_page.css ${page}/plan_page.js)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${parts})
file(READ ${page}/plan_page.css BRAID_PAGE_CSS)
file(READ ${page}/plan_page.js BRAID_PAGE_JS)
configure_file(${page}/plan_page.html ${PROJECT_BINARY_DIR}/generated/plan_page.html @ONLY)
file(READ ${PROJECT_BINARY_DIR}/generated/plan_page.html BRAID_PAGE)
configure_file(${page}/plan_page_template.cpp.in ${PROJECT_BINARY_DIR}/generated/plan_page_template.cpp @ONLY)
target_sources(braid_scheduler PRIVATE ${PROJECT_BINARY_DIR}/generated/plan_page_template.cpp)
