# shellcheck shell=sh
# To be sourced: exports each parameter below $DOSIMETER_SECRETS in AWS's Parameter Store as an
# environment variable, named by the last part of its name. Nothing is written to a disk.
for name in $(aws ssm get-parameters-by-path --path "$DOSIMETER_SECRETS" \
    --query 'Parameters[].Name' --output text); do
    value=$(aws ssm get-parameter --with-decryption --name "$name" \
        --query Parameter.Value --output text) || break
    export "${name##*/}=$value"
done
unset name value
