//! Files that steer tests and builds without being tests: whoever changes one of them changes what a check means. The list
//! is data; each entry says who reads the file, which is what a tamper report tells.

/// A pattern of paths, and who reads such a file. Names without a slash are meant wherever they are.
pub struct Steering {
    /// As in `protect`.
    pub pattern: &'static str,
    /// Who reads it.
    pub reader: &'static str,
}

const fn by(reader: &'static str, pattern: &'static str) -> Steering {
    Steering { pattern, reader }
}

const PYTHON: &str = "Python's test runners read it";
const IMPORTED: &str = "Python imports it before any test";
const PACKAGES: &str = "it says what is installed";
const NODE: &str = "npm and its kin read it";
const SCRIPT_TESTS: &str = "JavaScript's test runners read it";
const BUNDLE: &str = "it says how JavaScript is built";
const CARGO: &str = "cargo reads it";
const GO: &str = "go reads it";
const MAKE: &str = "make reads it";
const CMAKE: &str = "CMake and CTest read it";
const BUILD: &str = "the build reads it";
const RUBY: &str = "Ruby's test runners read it";
const JVM: &str = "the JVM's build reads it";
const DOTNET: &str = "the .NET build reads it";
const CI: &str = "continuous integration reads it";
const GIT: &str = "git reads it";
const FRAMEWORK: &str = "the test framework itself may be in it";
const TOOLS: &str = "it says which tools run";
const OWN: &str = "drivetrain reads it";

/// Everything that counts in framework mode.
pub const STEERING: &[Steering] = &[
    by(PYTHON, "conftest.py"),
    by(PYTHON, "pytest.ini"),
    by(PYTHON, ".pytest.ini"),
    by(PYTHON, "pytest.toml"),
    by(PYTHON, "tox.ini"),
    by(PYTHON, "tox.toml"),
    by(PYTHON, "noxfile.py"),
    by(PYTHON, "setup.cfg"),
    by(PYTHON, "setup.py"),
    by(PYTHON, "pyproject.toml"),
    by(PYTHON, ".coveragerc"),
    by(PYTHON, "unittest.cfg"),
    by(PYTHON, "manage.py"),
    by(IMPORTED, "sitecustomize.py"),
    by(IMPORTED, "usercustomize.py"),
    by(IMPORTED, "*.pth"),
    by(IMPORTED, "pytest.py"),
    by(IMPORTED, "**/pytest/__init__.py"),
    by(IMPORTED, "**/_pytest/**"),
    by(IMPORTED, "unittest.py"),
    by(IMPORTED, "**/unittest/__init__.py"),
    by(PACKAGES, "requirements*.txt"),
    by(PACKAGES, "constraints*.txt"),
    by(PACKAGES, "pipfile"),
    by(PACKAGES, "pipfile.lock"),
    by(PACKAGES, "poetry.lock"),
    by(PACKAGES, "pdm.lock"),
    by(PACKAGES, "uv.lock"),
    by(PACKAGES, "environment.y*ml"),
    by(NODE, "package.json"),
    by(NODE, "package-lock.json"),
    by(NODE, "npm-shrinkwrap.json"),
    by(NODE, "yarn.lock"),
    by(NODE, "pnpm-lock.yaml"),
    by(NODE, "pnpm-workspace.yaml"),
    by(NODE, ".pnpmfile.*"),
    by(NODE, "bun.lock"),
    by(NODE, "bun.lockb"),
    by(NODE, "bunfig.toml"),
    by(NODE, ".npmrc"),
    by(NODE, ".yarnrc*"),
    by(NODE, ".pnp.*"),
    by(NODE, "**/.yarn/**"),
    by(NODE, "deno.json*"),
    by(NODE, "deno.lock"),
    by(SCRIPT_TESTS, "jest.config.*"),
    by(SCRIPT_TESTS, "jest.setup.*"),
    by(SCRIPT_TESTS, "jest-*.config.*"),
    by(SCRIPT_TESTS, "vitest.config.*"),
    by(SCRIPT_TESTS, "vitest.setup.*"),
    by(SCRIPT_TESTS, "vitest.workspace.*"),
    by(SCRIPT_TESTS, ".mocharc*"),
    by(SCRIPT_TESTS, "mocha.opts"),
    by(SCRIPT_TESTS, "karma.conf.*"),
    by(SCRIPT_TESTS, "ava.config.*"),
    by(SCRIPT_TESTS, "playwright.config.*"),
    by(SCRIPT_TESTS, "cypress.config.*"),
    by(SCRIPT_TESTS, ".taprc"),
    by(BUNDLE, "vite.config.*"),
    by(BUNDLE, "webpack.config.*"),
    by(BUNDLE, "rollup.config.*"),
    by(BUNDLE, "babel.config.*"),
    by(BUNDLE, ".babelrc*"),
    by(BUNDLE, ".swcrc"),
    by(BUNDLE, "tsconfig*.json"),
    by(CARGO, "cargo.toml"),
    by(CARGO, "cargo.lock"),
    by(CARGO, "**/.cargo/**"),
    by(CARGO, "build.rs"),
    by(CARGO, "rust-toolchain"),
    by(CARGO, "rust-toolchain.toml"),
    by(CARGO, "**/.config/nextest.toml"),
    by(GO, "go.mod"),
    by(GO, "go.sum"),
    by(GO, "go.work"),
    by(GO, "go.work.sum"),
    by(MAKE, "makefile"),
    by(MAKE, "gnumakefile"),
    by(MAKE, "makefile.*"),
    by(MAKE, "*.mk"),
    by(MAKE, "*.mak"),
    by(CMAKE, "cmakelists.txt"),
    by(CMAKE, "*.cmake"),
    by(CMAKE, "cmakepresets.json"),
    by(CMAKE, "cmakeuserpresets.json"),
    by(BUILD, "configure"),
    by(BUILD, "configure.ac"),
    by(BUILD, "meson.build"),
    by(BUILD, "meson_options.txt"),
    by(BUILD, "meson.options"),
    by(BUILD, "build.bazel"),
    by(BUILD, "module.bazel*"),
    by(BUILD, "workspace.bazel"),
    by(BUILD, "*.bzl"),
    by(BUILD, ".bazelrc"),
    by(BUILD, "justfile"),
    by(BUILD, ".justfile"),
    by(BUILD, "taskfile.y*ml"),
    by(BUILD, "package.swift"),
    by(BUILD, "mix.exs"),
    by(BUILD, "rebar.config"),
    by(BUILD, "build.zig*"),
    by(BUILD, "dune-project"),
    by(BUILD, "*.cabal"),
    by(BUILD, "stack.yaml"),
    by(RUBY, "gemfile"),
    by(RUBY, "gemfile.lock"),
    by(RUBY, "rakefile"),
    by(RUBY, ".rspec"),
    by(RUBY, "spec_helper.rb"),
    by(RUBY, "rails_helper.rb"),
    by(RUBY, "test_helper.rb"),
    by(PACKAGES, "composer.json"),
    by(PACKAGES, "composer.lock"),
    by(BUILD, "phpunit.xml*"),
    by(JVM, "pom.xml"),
    by(JVM, "build.gradle*"),
    by(JVM, "settings.gradle*"),
    by(JVM, "gradle.properties"),
    by(JVM, "gradlew*"),
    by(JVM, "mvnw*"),
    by(JVM, "**/gradle/wrapper/**"),
    by(JVM, "**/.mvn/**"),
    by(JVM, "build.sbt"),
    by(DOTNET, "*.csproj"),
    by(DOTNET, "*.fsproj"),
    by(DOTNET, "*.sln"),
    by(DOTNET, "directory.build.*"),
    by(DOTNET, "directory.packages.props"),
    by(DOTNET, "nuget.config"),
    by(DOTNET, "global.json"),
    by(DOTNET, "*.runsettings"),
    by(CI, "**/.github/**"),
    by(CI, ".gitlab-ci.yml"),
    by(CI, "**/.gitlab/**"),
    by(CI, "**/.circleci/**"),
    by(CI, "**/.buildkite/**"),
    by(CI, "**/.woodpecker/**"),
    by(CI, ".woodpecker.y*ml"),
    by(CI, ".travis.yml"),
    by(CI, ".appveyor.yml"),
    by(CI, "appveyor.yml"),
    by(CI, "azure-pipelines.yml"),
    by(CI, "bitbucket-pipelines.yml"),
    by(CI, "jenkinsfile"),
    by(CI, ".pre-commit-config.yaml"),
    by(GIT, ".gitattributes"),
    by(GIT, ".gitmodules"),
    by(GIT, ".gitignore"),
    by(FRAMEWORK, "**/node_modules/**"),
    by(FRAMEWORK, "**/site-packages/**"),
    by(FRAMEWORK, "**/.venv/**"),
    by(FRAMEWORK, "**/venv/**"),
    by(FRAMEWORK, "**/vendor/**"),
    by(TOOLS, ".env"),
    by(TOOLS, ".envrc"),
    by(TOOLS, ".tool-versions"),
    by(TOOLS, "mise.toml"),
    by(TOOLS, ".mise.toml"),
    by(TOOLS, ".nvmrc"),
    by(TOOLS, ".node-version"),
    by(TOOLS, ".python-version"),
    by(TOOLS, ".ruby-version"),
    by(OWN, "**/.drivetrain/**"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_written_in_small_letters_and_stands_once() {
        let mut seen = std::collections::BTreeSet::new();
        for Steering { pattern, reader } in STEERING {
            assert_eq!(pattern.to_lowercase(), *pattern, "paths are compared in small letters");
            assert!(seen.insert(*pattern), "{pattern} stands twice");
            assert!(!reader.is_empty());
            let deep = pattern.contains('/');
            assert_eq!(deep, pattern.starts_with("**/"), "{pattern} is meant at any depth");
        }
    }
}
